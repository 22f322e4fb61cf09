// What a run writes: folder, train.csv, log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "apps/options/load_options.h"
#include "apps/options/option_changes.h"
#include "apps/options/options_table.h"
#include "apps/output/csv.h"
#include "apps/output/folder.h"
#include "apps/output/log.h"
#include "apps/train/resumption.h"
#include "apps/train/training.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint.h"
#include "tests/unit/apps/step_report.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;

class Output : public testing::Test {
 protected:
  static std::string refusal(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_FALSE(error.remedy().empty());
      return error.message();
    }
    return "no error";
  }

  const test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(Output, FoldersAreNamedAfterDateAndTime) {
  const auto folder = OutputFolder::create(std::nullopt, std::chrono::system_clock::now(), root_);
  EXPECT_THAT(fs::relative(folder.path(), root_).string(),
              testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{2}-[0-9]{2}-[0-9]{2}"));
  EXPECT_TRUE(fs::is_directory(folder.path()));
}

TEST_F(Output, RunsOfTheSameSecondGetFoldersOfTheirOwn) {
  const auto now = std::chrono::system_clock::now();
  std::vector<std::optional<OutputFolder>> folders(8);
  {
    std::vector<std::jthread> runs;
    for (auto& folder : folders)
      runs.emplace_back([&] { folder = OutputFolder::create(std::nullopt, now, root_); });
  }
  std::set<fs::path> paths;
  for (const auto& folder : folders) paths.insert(folder->path());
  EXPECT_EQ(paths.size(), folders.size());
}

TEST_F(Output, AChosenFolderIsMadeAndMayExist) {
  EXPECT_EQ(OutputFolder::create(root_ / "a" / "b").path(), root_ / "a" / "b");
  EXPECT_EQ(OutputFolder::create(root_ / "a" / "b").path(), root_ / "a" / "b");
}

TEST_F(Output, AFolderThatNothingWasWrittenIntoIsRemovedIfItIsNew) {
  OutputFolder::create(root_ / "a");
  EXPECT_FALSE(fs::exists(root_ / "a"));
  fs::create_directory(root_ / "there");
  OutputFolder::create(root_ / "there");
  EXPECT_TRUE(fs::exists(root_ / "there"));
  OutputFolder::create(root_ / "used").write_options("seed: 1\n");
  EXPECT_TRUE(fs::exists(root_ / "used"));
}

// The one that creates the folder may not be the one that gets it.
TEST_F(Output, OfTwoRunsThatStartAtOnceOneHasTheFolderAndTheOtherLeavesItThere) {
  for (int round = 0; round < 2000; ++round) {
    const fs::path path = root_ / std::to_string(round);
    std::optional<OutputFolder> folders[2];
    std::atomic<int> here{0};
    {
      std::vector<std::jthread> runs;
      for (auto& folder : folders)
        runs.emplace_back([&] {
          for (++here; here < 2;) {
          }
          try {
            folder = OutputFolder::create(path);
          } catch (const Error&) {
          }
        });
    }
    ASSERT_NE(folders[0].has_value(), folders[1].has_value()) << "in round " << round;
    ASSERT_TRUE(fs::is_directory(path)) << "in round " << round;
  }
}

TEST_F(Output, AFolderThatCannotBeMadeIsAnErrorWithItsName) {
  std::ofstream(root_ / "file") << "x";
  EXPECT_THAT(refusal([&] { OutputFolder::create(root_ / "file"); }), HasSubstr("file"));
  EXPECT_THAT(refusal([&] { OutputFolder::create(root_ / "file" / "below"); }),
              HasSubstr("cannot be created"));
  EXPECT_THAT(refusal([&] {
                OutputFolder::create(std::nullopt, std::chrono::system_clock::now(),
                                     root_ / "file");
              }),
              HasSubstr("cannot be created"));
  EXPECT_THAT(refusal([&] { OutputFolder::create("/proc/troupe"); }), HasSubstr("/proc/troupe"));
}

TEST_F(Output, ResolvedOptionsAreWrittenWhole) {
  const auto folder = OutputFolder::create(root_ / "run");
  folder.write_options("seed: 1\n");
  folder.write_options("seed: 2\n");
  EXPECT_EQ(test::read_text(folder.options()), "seed: 2\n");
  EXPECT_FALSE(fs::exists(folder.options().string() + ".new"));
  fs::create_directory(folder.options().string() + ".new");
  EXPECT_THAT(refusal([&] { folder.write_options("seed: 3\n"); }),
              HasSubstr("cannot be written: Is a directory"));
}

TEST_F(Output, TheNewestFolderWithCheckpointsIsFound) {
  EXPECT_EQ(newest_output(root_ / "none"), std::nullopt);
  EXPECT_EQ(newest_output(root_), std::nullopt);
  const auto now = fs::file_time_type::clock::now();
  const auto make = [&](const char* name, bool filled, seconds age) {
    fs::create_directories(root_ / "2026-01-02" / name / "checkpoints");
    if (filled) std::ofstream(root_ / "2026-01-02" / name / "checkpoints" / "step_1") << "x";
    fs::last_write_time(root_ / "2026-01-02" / name / "checkpoints", now - age);
  };
  make("10-00-00", true, seconds(30));
  make("10-00-00-2", true, seconds(20));
  make("11-00-00", false, seconds(10));
  EXPECT_EQ(newest_output(root_), root_ / "2026-01-02" / "10-00-00-2");
  const auto first = [](const fs::path& run) { return run.filename() == "10-00-00"; };
  EXPECT_EQ(newest_output(root_, first), root_ / "2026-01-02" / "10-00-00");
}

TEST_F(Output, OptionsOfFormerStartsAreKept) {
  const OutputFolder folder = OutputFolder::create(root_ / "run");
  folder.write_options("a: 1\n");
  folder.write_options("a: 1\n");
  EXPECT_FALSE(fs::exists(folder.path() / "options_restart-1.yaml"));
  folder.write_options("a: 2\n");
  folder.write_options("a: 3\n");
  EXPECT_EQ(test::read_text(folder.options()), "a: 3\n");
  EXPECT_EQ(test::read_text(folder.path() / "options_restart-1.yaml"), "a: 1\n");
  EXPECT_EQ(test::read_text(folder.path() / "options_restart-2.yaml"), "a: 2\n");
}

TEST_F(Output, ARunGoesOnWithItsOwnModelDataAndSeedOnly) {
  const auto options = [](const std::string& more) {
    return parse_options("model: {name: mlp}\ndata: {name: synthetic}\n" + more, "o.yaml");
  };
  const OutputFolder folder = OutputFolder::create(root_ / "run");
  EXPECT_FALSE(is_of_this_run(folder.path(), options("")));  // says nothing
  folder.write_options(options_for_restart(options(""), {2, 2}));
  EXPECT_TRUE(is_of_this_run(folder.path(), options("train: {lr: 0.01}")));
  EXPECT_FALSE(is_of_this_run(folder.path(), options("seed: 2")));
  EXPECT_FALSE(is_of_this_run(
      folder.path(),
      parse_options("model: {name: mlp, widths: [8]}\ndata: {name: synthetic}\n", "o.yaml")));
  EXPECT_EQ(changes_since(resolved_yaml(options("")), options("train: {lr: 0.01, epochs: 2}")),
            "train.epochs 1 → 2, train.lr 0.1 → 0.01");
  EXPECT_EQ(changes_since(resolved_yaml(options("")),
                          options("train: {groups: [{parameters: ['*.bias'], lr: 0}]}")),
            "train.groups [] → [{parameters: [\"*.bias\"], lr: 0}]");
  EXPECT_EQ(changes_since("", options("")), "");
}

TEST_F(Output, SaysWhetherAFailedRunCanBeResumed) {
  const Error lost(ErrorCode::peer_lost, "rank 1 is lost", "go on");
  EXPECT_EQ(with_resume_hint(lost, root_).remedy(),
            "no checkpoint was written: start the run again");
  const Error spent(ErrorCode::actor_failed, "stage/0 failed", "raise `RestartBudget::max`");
  EXPECT_THAT(with_resume_hint(spent, root_).remedy(),
              testing::StartsWith("raise `RestartBudget::max`; no checkpoint was written"));
  const Error lost_gpu(ErrorCode::device_lost, "a kernel failed", "report it");
  EXPECT_EQ(with_resume_hint(lost_gpu, root_).remedy(),
            "report it; no checkpoint was written: start the run again");
  const Error full(ErrorCode::io, "no space", "free some");
  EXPECT_EQ(with_resume_hint(full, root_).remedy(),
            "free some; no checkpoint was written: start the run again");
  const Error damaged(ErrorCode::bad_file, "7.png is empty", "copy it again");
  EXPECT_EQ(with_resume_hint(damaged, root_).remedy(),
            "copy it again; no checkpoint was written: start the run again");
  const Error large(ErrorCode::out_of_memory, "no memory", "lower it");
  EXPECT_EQ(with_resume_hint(large, root_).remedy(),
            "lower it; no checkpoint was written: start the run again");
  const Error blocked(ErrorCode::unsupported, "others use the GPU", "end them");
  EXPECT_EQ(with_resume_hint(blocked, root_).remedy(), "end them") << "nothing has run";
  EXPECT_EQ(with_resume_hint(blocked, root_, 3).remedy(),
            "end them; no checkpoint was written: start the run again");
  const Error other(ErrorCode::bad_shape, "another shape", "give this one");
  EXPECT_EQ(with_resume_hint(other, root_).remedy(), "give this one");
}

TEST_F(Output, ADivergedRunIsResumedFromBeforeItsTestLossWasNotFinite) {
  const Error diverged(ErrorCode::diverged, "the loss of step 5 is not finite", "lower `lr`");
  const auto evaluated = [&](std::uint32_t step, double loss) {
    Manifest manifest;
    manifest.step = step;
    write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
    TrainCsv csv(root_ / "train.csv", step - 1);
    ASSERT_TRUE(csv.add(step_report(step)));
    ASSERT_TRUE(csv.fill({.step = step, .loss = loss, .correct = 1, .count = 2}));
  };
  evaluated(2, 0.5);
  EXPECT_EQ(with_resume_hint(diverged, root_, 3).remedy(),
            "lower `lr`; resume from step 2 (loss 0.3333) with this change and --restart " +
                root_.string());
  evaluated(4, std::nan(""));
  EXPECT_THAT(with_resume_hint(diverged, root_).remedy(),
              testing::AllOf(HasSubstr(
                  "resume from step 2 (loss 0.3333), before the loss diverged, "
                  "with this change, --restart " +
                  (root_ / "checkpoints").string() + "/step_00000002 and another folder (-o)")));
  const Error lost(ErrorCode::peer_lost, "rank 1 is lost", "");
  EXPECT_THAT(with_resume_hint(lost, root_).remedy(), HasSubstr("resume from step 4 with the"));
  const Error large(ErrorCode::out_of_memory, "no memory", "lower it");
  EXPECT_THAT(with_resume_hint(large, root_).remedy(),
              testing::StartsWith("lower it; with another train.batch_size, start a new run; with "
                                  "the other changes, resume from step 4 with --restart "));
  fs::remove_all(root_ / "checkpoints" / "step_00000002");
  EXPECT_THAT(with_resume_hint(diverged, root_).remedy(),
              HasSubstr("; there is no checkpoint from before the loss diverged"));
}

// The loss of step 5 is that of the weights after step 4, which a change of the rate keeps.
TEST_F(Output, ADivergedRunIsNotResumedFromTheWeightsThatDiverged) {
  const Error diverged(ErrorCode::diverged, "the loss of step 5 is not finite", "lower `lr`");
  const auto write = [&](std::int64_t step) {
    Manifest manifest;
    manifest.step = step;
    write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  };
  write(4);
  EXPECT_THAT(with_resume_hint(diverged, root_, 4).remedy(),
              HasSubstr("; there is no checkpoint from before the loss diverged"));
  write(2);
  EXPECT_THAT(with_resume_hint(diverged, root_, 4).remedy(),
              HasSubstr("resume from step 2, before the loss diverged"));
  EXPECT_THAT(with_resume_hint(diverged, root_, 5).remedy(), HasSubstr("resume from step 4 with"));
}

TEST_F(Output, ADivergedRunIsNotResumedFromACheckpointWhoseLossHadExploded) {
  const Error diverged(ErrorCode::diverged, "the loss of step 5 is not finite", "lower `lr`");
  TrainCsv csv(root_ / "train.csv");
  std::int64_t step = 0;
  for (const double loss : {2.0, 1.5, 190.0, 1e23}) {
    StepReport report = step_report(++step);
    report.loss = loss;
    ASSERT_TRUE(csv.add(report));
    Manifest manifest;
    manifest.step = step;
    write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  }
  const auto hint = [&] { return with_resume_hint(diverged, root_, 4).remedy(); };
  EXPECT_THAT(hint(), HasSubstr("resume from step 2 (loss 1.5), before the loss diverged, with"))
      << "the loss of step 4 is that of the weights after step 3";
  for (const char* sound : {"step_00000001", "step_00000002"})
    fs::remove_all(root_ / "checkpoints" / sound);
  EXPECT_THAT(hint(), HasSubstr("lower `lr`; there is no checkpoint from before the loss diverged: "
                                "start anew with this change"));
}

TEST(OptionChanges, TheFirstIsNamedByItsKey) {
  const auto options = [](const std::string& text) { return parse_options(text, "o.yaml"); };
  const std::string one = resolved_yaml(options(""));
  const OptionChange rate =
      first_option_difference(one, resolved_yaml(options("train: {lr: 0.01, epochs: 2}")));
  EXPECT_EQ(rate.key + " " + rate.before + " " + rate.now, "train.epochs 1 2");
  EXPECT_EQ(first_option_difference(one, resolved_yaml(options("seed: 7"))).key, "seed");
  EXPECT_EQ(first_option_difference(one, one).key, "");
  EXPECT_EQ(first_option_difference("faults:\n  - actor: x\n", "").key, "faults");
}

TEST_F(Output, ResolvedOptionsTellThePartitionThatWasFound) {
  const Options automatic = parse_options("parallel: {pipeline: 2}", "o.yaml");
  const std::string text = options_for_restart(automatic, {5, 7});
  EXPECT_THAT(text, HasSubstr("  partition: auto  # of this run: [5, 7]\n"));
  EXPECT_EQ(resolved_yaml(parse_options(text, "o.yaml")), resolved_yaml(automatic));
}

TEST_F(Output, TheCsvHasNamesAndNineDigitsOfLoss) {
  TrainCsv csv(root_ / "train.csv");
  EXPECT_TRUE(csv.add(step_report(1)));
  const Evaluation evaluation{.loss = 0.25, .correct = 9131, .count = 10000};
  EXPECT_TRUE(csv.add(step_report(2)));
  EXPECT_TRUE(csv.fill(evaluation));
  EXPECT_EQ(test::read_text(root_ / "train.csv"),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,"
            "test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,,,,\n"
            "2,1,0.333333333,0.5,1234.56,0.1,1.500,0.25,0.9131,9131,10000\n");
}

TEST_F(Output, TheCsvHasColumnsOfScaledLossesIfTheyAreWanted) {
  const fs::path path = root_ / "train.csv";
  StepReport report = step_report(1);
  report.loss_scale = 65536;
  {
    TrainCsv csv(path, {}, {.loss_scale = true, .skipped_steps = true});
    EXPECT_TRUE(csv.add(report));
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 9131, .count = 10000}));
  }
  {
    TrainCsv csv(path, 1, {.loss_scale = true, .skipped_steps = true});
    report.step = 2;
    report.loss_scale = 0x1p-20;
    report.skipped_steps = 7;
    EXPECT_TRUE(csv.add(report));
  }
  EXPECT_TRUE(TrainCsv(path, 2).add(step_report(3))) << "a run that does not scale losses";
  EXPECT_EQ(test::read_text(path),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,loss_scale,"
            "skipped_steps,test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,65536,0,0.25,0.9131,9131,10000\n"
            "2,1,0.333333333,0.5,1234.56,0.1,3.000,9.5367431640625e-07,7,,,,\n"
            "3,1,0.333333333,0.5,1234.56,0.1,4.500,,,,,,\n");
  ASSERT_EQ(evaluations_until(path, 9).size(), 1u);
  EXPECT_EQ(evaluations_until(path, 9)[0].correct, 9131);
  EXPECT_EQ(row_losses(path).size(), 3u);
  EXPECT_TRUE(lacks_evaluation(path, 3));
}

TEST_F(Output, ACsvWithTheLossScaleAloneGetsTheColumnOfSkippedSteps) {
  const fs::path path = root_ / "train.csv";
  StepReport report = step_report(1);
  report.loss_scale = 1024;
  { EXPECT_TRUE(TrainCsv(path, 0, {.loss_scale = true, .gpu = true}).add(report)); }
  report.skipped_steps = 2;
  {
    TrainCsv csv(path, 1, {.loss_scale = true, .skipped_steps = true, .gpu = true});
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
    EXPECT_TRUE(csv.add(report));
  }
  EXPECT_EQ(test::read_text(path),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,loss_scale,"
            "skipped_steps,gpu_utilisation_percent,gpu_memory_mib,gpu_power_w,"
            "test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,1024,,,,,0.25,0.5,1,2\n"
            "1,1,0.333333333,0.5,1234.56,0.1,3.000,1024,2,,,,,,,\n");
  EXPECT_EQ(evaluations_until(path, 1).size(), 1u);
}

TEST_F(Output, ACsvThatGoesOnGetsTheColumnOfTheLossScale) {
  const fs::path path = root_ / "train.csv";
  EXPECT_TRUE(TrainCsv(path).add(step_report(1)));
  StepReport report = step_report(2);
  report.loss_scale = 65536;
  {
    TrainCsv csv(path, 1, {.loss_scale = true});
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
    EXPECT_TRUE(csv.add(report));
  }
  EXPECT_EQ(test::read_text(path),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,loss_scale,"
            "test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,,0.25,0.5,1,2\n"
            "2,1,0.333333333,0.5,1234.56,0.1,3.000,65536,,,,\n");
}

TEST_F(Output, TheCsvHasColumnsOfTheGpuIfOneComputes) {
  const fs::path path = root_ / "train.csv";
  StepReport report = step_report(1);
  report.gpu = {.utilisation_percent = 75, .memory_mib = 3072.5, .power_w = {}};
  {
    TrainCsv csv(path, 0, {.gpu = true});
    EXPECT_TRUE(csv.add(report));
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
    EXPECT_TRUE(csv.add(step_report(2)));
  }
  EXPECT_EQ(test::read_text(path),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,"
            "gpu_utilisation_percent,gpu_memory_mib,gpu_power_w,"
            "test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,75,3072.5,,0.25,0.5,1,2\n"
            "2,1,0.333333333,0.5,1234.56,0.1,1.500,,,,,,,\n");
  ASSERT_EQ(evaluations_until(path, 9).size(), 1u);
  EXPECT_EQ(evaluations_until(path, 9).front().correct, 1);
  EXPECT_TRUE(lacks_evaluation(path, 2));
  EXPECT_EQ(row_losses(path).size(), 2u);
}

TEST_F(Output, ACsvThatGoesOnOnAnotherDeviceHasTheColumnsOfBoth) {
  const fs::path of_gpu = root_ / "gpu.csv", of_cpu = root_ / "cpu.csv";
  { EXPECT_TRUE(TrainCsv(of_gpu, 0, {.gpu = true}).add(step_report(1))); }
  { EXPECT_TRUE(TrainCsv(of_gpu, 1).add(step_report(2))); }
  EXPECT_THAT(test::read_text(of_gpu),
              EndsWith("\n2,1,0.333333333,0.5,1234.56,0.1,3.000,,,,,,,\n"));
  { EXPECT_TRUE(TrainCsv(of_cpu).add(step_report(1))); }
  {
    TrainCsv csv(of_cpu, 1, {.loss_scale = true, .gpu = true});
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
    StepReport report = step_report(2);
    report.gpu.power_w = 300;
    EXPECT_TRUE(csv.add(report));
  }
  EXPECT_EQ(test::read_text(of_cpu),
            "step,epoch,loss,accuracy,images_per_second,learning_rate,training_seconds,loss_scale,"
            "gpu_utilisation_percent,gpu_memory_mib,gpu_power_w,"
            "test_loss,test_accuracy,test_correct,test_count\n"
            "1,1,0.333333333,0.5,1234.56,0.1,1.500,,,,,0.25,0.5,1,2\n"
            "2,1,0.333333333,0.5,1234.56,0.1,3.000,,,,300,,,,\n");
  ASSERT_EQ(evaluations_until(of_cpu, 9).size(), 1u);
  { EXPECT_TRUE(TrainCsv(of_gpu, 2, {.loss_scale = true}).add(step_report(3))); }
  EXPECT_THAT(test::read_text(of_gpu),
              AllOf(HasSubstr(",training_seconds,loss_scale,gpu_utilisation_percent,"),
                    EndsWith("\n3,1,0.333333333,0.5,1234.56,0.1,4.500,,,,,,,,\n")));
}

TEST_F(Output, ACsvThatGoesOnKeepsItsRows) {
  { EXPECT_TRUE(TrainCsv(root_ / "train.csv").add(step_report(1))); }
  { EXPECT_TRUE(TrainCsv(root_ / "train.csv").add(step_report(2))); }
  const std::string text = test::read_text(root_ / "train.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(Output, ACsvThatGoesOnFromACheckpointDropsTheRowsOfLaterSteps) {
  {
    TrainCsv csv(root_ / "train.csv");
    for (int step = 1; step <= 12; ++step) EXPECT_TRUE(csv.add(step_report(step)));
  }
  { EXPECT_TRUE(TrainCsv(root_ / "train.csv", 9).add(step_report(10))); }
  const std::string text = test::read_text(root_ / "train.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 10);
  EXPECT_THAT(text, HasSubstr("\n9,1,"));
  EXPECT_THAT(text, HasSubstr("\n10,1,"));
}

TEST_F(Output, AFullDiskIsToldAndNotFatal) {
  TrainCsv csv("/dev/full");
  EXPECT_FALSE(csv.add(step_report(1)));
  EXPECT_FALSE(csv.fill({.loss = 1, .correct = 1, .count = 2}));
}

TEST_F(Output, ACsvThatGoesOnFillsTheTestColumnsOfItsLastRow) {
  const fs::path path = root_ / "train.csv";
  { EXPECT_TRUE(TrainCsv(path).add(step_report(1))); }
  EXPECT_TRUE(lacks_evaluation(path, 1));
  EXPECT_FALSE(lacks_evaluation(path, 2));
  EXPECT_FALSE(lacks_evaluation(root_ / "none.csv", 1));
  {
    TrainCsv csv(path, 1);
    EXPECT_TRUE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
    EXPECT_FALSE(csv.fill({.loss = 0.5, .correct = 2, .count = 2}));  // filled already
    EXPECT_TRUE(csv.add(step_report(2)));
  }
  EXPECT_FALSE(lacks_evaluation(path, 1));
  EXPECT_THAT(test::read_text(path),
              EndsWith("\n1,1,0.333333333,0.5,1234.56,0.1,1.500,0.25,0.5,1,2\n"
                       "2,1,0.333333333,0.5,1234.56,0.1,3.000,,,,\n"))
      << "the time continues";
}

TEST_F(Output, ACsvOfAFormerVersionStaysWithoutTheTime) {
  const fs::path path = root_ / "train.csv";
  const std::string former =
      "step,epoch,loss,accuracy,images_per_second,learning_rate,test_loss,test_accuracy,"
      "test_correct,test_count\n"
      "1,1,0.5,0.5,1234.56,0.1,0.25,0.5,1,2\n";
  std::ofstream(path) << former;
  { EXPECT_TRUE(TrainCsv(path, 1).add(step_report(2))); }
  EXPECT_EQ(test::read_text(path), former + "2,1,0.333333333,0.5,1234.56,0.1,,,,\n");
  EXPECT_TRUE(lacks_evaluation(path, 2));
  ASSERT_EQ(evaluations_until(path, 2).size(), 1);
  EXPECT_EQ(evaluations_until(path, 2)[0].loss, 0.25);
}

TEST_F(Output, ACsvWhoseTimeCannotBeReadBeginsAtZero) {
  const fs::path path = root_ / "train.csv";
  { const TrainCsv made(path); }
  for (const char* row : {"1,1\n", "1,1,0.5,0.5,1234.56,0.1,soon,,,,\n", "1,,,,,,,,,,,,,,,,\n"}) {
    std::ofstream(path, std::ios::app) << row;
    EXPECT_TRUE(TrainCsv(path, 1).add(step_report(2)));
    EXPECT_THAT(test::read_text(path), EndsWith(",0.1,1.500,,,,\n"));
    { const TrainCsv without_it(path, 1); }
  }
}

TEST_F(Output, ACsvGivesItsEvaluationsBackToTheBit) {
  const fs::path path = root_ / "train.csv";
  const double loss = 1.0 / 3;
  {
    TrainCsv csv(path);
    for (const std::uint32_t step : {1u, 2u, 3u, 4u}) {
      EXPECT_TRUE(csv.add(step_report(step)));
      if (step == 2) continue;
      EXPECT_TRUE(csv.fill({.loss = loss, .correct = step, .count = 9}));
    }
  }
  std::ofstream(path, std::ios::app) << "5,1,0.3,0.5,1234,0.1,a,0.5,1,2\n6,1,,,,,,\n7,1,0.3,0.5,";
  const std::vector<Evaluation> found = evaluations_until(path, 3);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].step, 1);
  EXPECT_EQ(found[1].step, 3);
  EXPECT_EQ(found[1].loss, loss);
  EXPECT_EQ(found[1].correct, 3);
  EXPECT_EQ(found[1].count, 9);
  EXPECT_EQ(evaluations_until(path, 100).size(), 3);
  EXPECT_TRUE(evaluations_until(root_ / "none.csv", 3).empty());
}

TEST_F(Output, ARowThatWasLeftUnfinishedIsCutOff) {
  const fs::path path = root_ / "train.csv";
  { EXPECT_TRUE(TrainCsv(path).add(step_report(1))); }
  const std::string whole = test::read_text(path);
  for (const auto& steps_done : {std::optional<std::int64_t>(), std::optional<std::int64_t>(22)}) {
    std::ofstream(path) << whole << "22";
    { EXPECT_TRUE(TrainCsv(path, steps_done).add(step_report(23))); }
    EXPECT_EQ(test::read_text(path), whole + "23,1,0.333333333,0.5,1234.56,0.1,3.000,,,,\n");
  }
  std::ofstream(root_ / "train.log") << "a line\nhalf a l";
  open_log(root_ / "train.log")->info("another");
  EXPECT_THAT(test::read_text(root_ / "train.log"),
              testing::MatchesRegex("a line\n20[^\n]* another\n"));
}

/// No file of this process may grow beyond `bytes` while it lives: to the writer a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(Output, WhatAFullDiskLeavesOfARowIsTakenAway) {
  const fs::path path = root_ / "train.csv";
  TrainCsv csv(path);
  EXPECT_TRUE(csv.add(step_report(1)));
  const std::string whole = test::read_text(path);
  {
    const FileSizeLimit limit(whole.size() + 10);
    EXPECT_FALSE(csv.add(step_report(2)));
    EXPECT_EQ(test::read_text(path), whole);
  }
  EXPECT_TRUE(csv.add(step_report(3)));
  const std::string more = test::read_text(path);
  EXPECT_EQ(more, whole + "3,1,0.333333333,0.5,1234.56,0.1,1.500,,,,\n");
  {
    const FileSizeLimit limit(more.size() + 3);
    EXPECT_FALSE(csv.fill({.loss = 0.25, .correct = 9131, .count = 10000}));
    EXPECT_EQ(test::read_text(path), more);
  }
  EXPECT_TRUE(lacks_evaluation(path, 3));
}

TEST_F(Output, WhatAFullDiskLeavesOfALogLineIsTakenAway) {
  const auto log = open_log(root_ / "train.log");
  log->info("one");
  const std::string whole = test::read_text(root_ / "train.log");
  {
    const FileSizeLimit limit(whole.size() + 10);
    log->info("two");
  }
  EXPECT_EQ(test::read_text(root_ / "train.log"), whole);
  log->info("three");
  EXPECT_THAT(test::read_text(root_ / "train.log"),
              testing::MatchesRegex("20[^\n]* one\n20[^\n]* three\n"));
}

TEST_F(Output, ACsvWithoutRowsHasNothingToFill) {
  TrainCsv csv(root_ / "train.csv");
  EXPECT_FALSE(csv.fill({.loss = 0.25, .correct = 1, .count = 2}));
  EXPECT_EQ(std::ranges::count(test::read_text(root_ / "train.csv"), '\n'), 1);
}

TEST_F(Output, FilesThatCannotBeOpenedAreErrorsWithTheirName) {
  EXPECT_THAT(refusal([&] { TrainCsv csv(root_ / "no" / "train.csv"); }), HasSubstr("train.csv"));
  EXPECT_THAT(refusal([&] { open_log(root_); }), HasSubstr(root_.string()));
}

TEST_F(Output, TheLogIsFlushedLineByLine) {
  const auto log = open_log(root_ / "train.log");
  log->info("step {}", 3);
  EXPECT_THAT(test::read_text(root_ / "train.log"), EndsWith(" info step 3\n"));
}

}  // namespace
}  // namespace troupe
