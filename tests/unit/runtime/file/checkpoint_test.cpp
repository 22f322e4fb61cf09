#include "runtime/file/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/file/block.h"
#include "runtime/file/manifest.h"
#include "runtime/file/shuffle.h"
#include "support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::expect_same;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

/// Small blocks, so that small tensors have several.
CheckpointWriteOptions small_blocks(int threads = 1) {
  CheckpointWriteOptions options;
  options.threads = threads;
  options.block_bytes = 64;
  return options;
}

std::vector<NamedTensor> some_tensors() {
  return {{"a.weight", test::normal_tensor({10, 17}, 1)},
          {"b", test::random_tensor({9}, DType::i64, 2)},
          {"c", Tensor::zeros({500})},
          {"empty", Tensor::empty({0, 3}, DType::f32, Device::cpu())},
          {"scalar", test::random_tensor({}, DType::f64, 3)},
          {"short", test::random_tensor({77}, DType::bf16, 4)},
          {"tiny", test::random_tensor({5}, DType::u8, 5)}};
}

std::vector<ShardContent> cut(const std::vector<NamedTensor>& tensors, std::size_t stages) {
  std::vector<ShardContent> shards(stages);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    shards[i * stages / tensors.size()].tensors.push_back(tensors[i]);
  for (std::size_t i = 0; i < stages; ++i) shards[i].stage = static_cast<int>(i);
  return shards;
}

Manifest manifest_of(std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.generation = 3;
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.run = {{"host", "größe"}, {"version", "0.1"}};
  manifest.options = "seed: 1\ntrain: {lr: 0.1}\n";
  manifest.position = R"({"epoch":2,"sample":640})";
  return manifest;
}

std::filesystem::path write_small(const TemporaryFolder& folder, std::size_t stages = 2) {
  return write_checkpoint(folder.path(), manifest_of(7), cut(some_tensors(), stages),
                          small_blocks())
      .value();
}

TEST(Shuffle, IsUndoneForEveryElementSizeAndLength) {
  for (std::size_t element : {1u, 2u, 4u, 8u})
    for (std::size_t count = 0; count < 300; ++count) {
      const Tensor raw = test::random_tensor({static_cast<std::int64_t>(count * element)},
                                             DType::u8, static_cast<unsigned>(count));
      const std::span<const std::byte> in(raw.raw(), raw.bytes());
      std::vector<std::byte> shuffled(in.size()), back(in.size());
      shuffle_bytes(in, element, shuffled);
      for (std::size_t i = 0; i < in.size(); ++i)
        ASSERT_EQ(shuffled[i % element * count + i / element], in[i]) << element << " " << count;
      unshuffle_bytes(shuffled, element, back);
      ASSERT_TRUE(std::equal(in.begin(), in.end(), back.begin())) << element << " " << count;
    }
}

TEST(Checkpoint, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  const auto path = write_small(folder);
  EXPECT_EQ(path, folder / "step_00000007");
  const Checkpoint checkpoint = open_checkpoint(path);
  expect_same(load_tensors(checkpoint), some_tensors());
  const Manifest& manifest = checkpoint.manifest();
  EXPECT_EQ(manifest.step, 7);
  EXPECT_EQ(manifest.generation, 3u);
  EXPECT_EQ(manifest.created, "2026-01-02T03:04:05Z");
  EXPECT_EQ(manifest.run, manifest_of(7).run);
  EXPECT_EQ(manifest.options, manifest_of(7).options);
  EXPECT_EQ(manifest.position, manifest_of(7).position);
  ASSERT_EQ(manifest.shards.size(), 2u);
  EXPECT_EQ(manifest.shards[1].file, "stage_01.tensors");
}

TEST(Checkpoint, ReadsTheSameHoweverItIsCutAndPacked) {
  for (std::size_t stages : {1u, 2u, 3u, 7u})
    for (int threads : {1, 2, 4}) {
      TemporaryFolder folder;
      CheckpointWriteOptions options = small_blocks(threads);
      if (stages == 3) options.block_bytes = 1 << 20;
      const auto path =
          write_checkpoint(folder.path(), manifest_of(1), cut(some_tensors(), stages), options);
      expect_same(load_tensors(open_checkpoint(path.value()), threads), some_tensors());
    }
}

TEST(Checkpoint, HasTheSameBytesForAnyNumberOfThreads) {
  TemporaryFolder folder;
  const std::vector<ShardContent> shards{{0, {{"w", test::normal_tensor({100'000}, 1)}}}};
  std::string first;
  for (int threads : {1, 2, 4}) {
    CheckpointWriteOptions options = small_blocks(threads);
    options.block_bytes = 4096;
    const auto path = write_checkpoint(folder.path(), manifest_of(threads), shards, options);
    const std::string text = read_text(path.value() / "stage_00.tensors");
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << threads;
  }
}

TEST(Checkpoint, LoadsTensorsByNameInTheOrderAskedFor) {
  TemporaryFolder folder;
  const Checkpoint checkpoint = open_checkpoint(write_small(folder));
  const std::vector<std::string> names{"tiny", "a.weight"};
  const auto tensors = load_tensors(checkpoint, names);
  expect_same(tensors, {some_tensors()[6], some_tensors()[0]});
  const std::vector<std::string> wrong{"a.wight"};
  expect_error(ErrorCode::bad_file, {"a.wight", "step_00000007", "another model"},
               [&] { load_tensors(checkpoint, wrong); });
}

TEST(Checkpoint, ListsItsTensors) {
  TemporaryFolder folder;
  const Checkpoint checkpoint = open_checkpoint(write_small(folder));
  const StoredTensor& zeros = checkpoint.tensors().at(2);
  EXPECT_EQ(zeros.name, "c");
  EXPECT_EQ(zeros.dtype, DType::f32);
  EXPECT_EQ(zeros.shape, (Shape{500}));
  EXPECT_LT(zeros.stored_bytes, 1000u);
}

TEST(Checkpoint, ReplacesOneOfTheSameStep) {
  TemporaryFolder folder;
  write_small(folder);
  const std::vector<NamedTensor> other{{"w", Tensor::zeros({4})}};
  const auto path = write_checkpoint(folder.path(), manifest_of(7), {{0, other}});
  expect_same(load_tensors(open_checkpoint(path.value())), other);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// The writer that published it may fail before it says so, and its replacement publishes it again.
TEST(Checkpoint, IsPublishedAgainWithTheShardsOfOtherProcesses) {
  const TemporaryFolder folder;
  const std::vector<ShardContent> shards = cut(some_tensors(), 2);
  const auto elsewhere = write_shards(folder.path(), 7, {shards[1]}).value();
  const auto publish = [&](const std::vector<ShardInfo>& others) {
    return write_checkpoint(folder.path(), manifest_of(7), {shards[0]}, {}, others);
  };
  for (int time = 0; time < 2; ++time) {
    const auto path = publish(elsewhere);
    ASSERT_TRUE(path) << path.error().message();
    const Checkpoint checkpoint = open_checkpoint(path.value());
    checkpoint.verify();
    EXPECT_EQ(checkpoint.manifest().shards.size(), 2u);
  }
  std::vector<ShardInfo> other = elsewhere;
  ++other[0].summary.index_checksum;
  const auto failed = publish(other);
  ASSERT_FALSE(failed) << "it has no such shard";
  EXPECT_THAT(failed.error().message(),
              testing::HasSubstr("of another process into the checkpoint"));
}

TEST(Checkpoint, NotesTheTimeWhenNoneIsGiven) {
  TemporaryFolder folder;
  const auto path = write_checkpoint(folder.path(), Manifest{}, {});
  EXPECT_THAT(open_checkpoint(path.value()).manifest().created,
              testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(Checkpoint, RefusesContentThatCouldNotBeRead) {
  TemporaryFolder folder;
  const Tensor tensor = Tensor::zeros({1});
  const auto write = [&](const Manifest& manifest, const std::vector<ShardContent>& shards) {
    EXPECT_THROW(write_checkpoint(folder.path(), manifest, shards).value(), Error);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  };
  write({}, {{0, {{"a", tensor}}}, {1, {{"a", tensor}}}});
  write({}, {{0, {{"a", tensor}}}, {0, {{"b", tensor}}}});
  write({}, {{-1, {{"a", tensor}}}});
  write({}, {{0, {{"\xff", tensor}}}});
  write({}, {{0, {{"a", Tensor{}}}}});
  write({}, {{0, {{"a", Tensor::empty({1, 4, 2, 2}, DType::f32, Device::cpu(), Layout::nhwc)}}}});
  Manifest manifest;
  manifest.position = "{no json";
  write(manifest, {});
  manifest.position = std::string(40, '[') + std::string(40, ']');
  write(manifest, {});
  manifest = {};
  manifest.options = "\xff";
  write(manifest, {});
  manifest = {};
  manifest.step = -1;
  write(manifest, {});
}

TEST(Checkpoint, FindsAnyFlippedBit) {
  TemporaryFolder folder;
  const auto path = write_small(folder);
  std::size_t bits = 0;
  for (const char* name : {"stage_00.tensors", "stage_01.tensors", "manifest.json"}) {
    const std::string whole = read_text(path / name);
    // In place: to cut and rewrite the file for each bit takes a disk seconds.
    std::fstream file(path / name, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, char value) {
      file.seekp(static_cast<std::streamoff>(at)).put(value).flush();
    };
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit, ++bits) {
      put(bit / 8, static_cast<char>(whole[bit / 8] ^ 1 << bit % 8));
      try {
        open_checkpoint(path).verify();
        FAIL() << name << ": bit " << bit << " is not found";
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::bad_file) << error.what();
        ASSERT_FALSE(error.remedy().empty());
      }
      put(bit / 8, whole[bit / 8]);
    }
  }
  EXPECT_GT(bits, 10'000u);
  open_checkpoint(path).verify();
}

TEST(Checkpoint, FindsDamagedBlocksWhileLoading) {
  TemporaryFolder folder;
  const auto path = write_small(folder, 1);
  std::string text = read_text(path / "stage_00.tensors");
  text[100] ^= 1;
  write_text(path / "stage_00.tensors", text);
  const Checkpoint checkpoint = open_checkpoint(path);
  for (int threads : {1, 3})
    expect_error(ErrorCode::bad_file, {"stage_00.tensors", "'a.weight'", "checksum"},
                 [&] { load_tensors(checkpoint, threads); });
}

TEST(Checkpoint, RefusesAFileThatEndsAnywhereTooEarlyOrIsMissing) {
  TemporaryFolder folder;
  const auto path = write_small(folder);
  for (const char* name : {"stage_00.tensors", "stage_01.tensors", "manifest.json"}) {
    const std::string whole = read_text(path / name);
    for (std::size_t length = 0; length < whole.size(); length += 1 + length / 20) {
      write_text(path / name, whole.substr(0, length));
      EXPECT_THROW(open_checkpoint(path), Error) << name << " of " << length;
    }
    write_text(path / name, whole + "x");
    EXPECT_THROW(open_checkpoint(path), Error) << name;
    std::filesystem::remove(path / name);
    expect_error(ErrorCode::io, {name, "No such file"}, [&] { open_checkpoint(path); });
    write_text(path / name, whole);
  }
}

TEST(Checkpoint, RefusesAShardOfAnotherCheckpoint) {
  TemporaryFolder folder;
  const auto write = [&](std::int64_t step, float value) {
    return write_checkpoint(folder.path(), manifest_of(step),
                            {{0, {{"w", test::tensor_of<float>({1}, {value})}}}})
        .value();
  };
  const auto a = write(1, 1.0f), b = write(2, 2.0f);
  std::filesystem::copy_file(a / "stage_00.tensors", b / "stage_00.tensors",
                             std::filesystem::copy_options::overwrite_existing);
  expect_error(ErrorCode::bad_file, {"stage_00.tensors", "another checkpoint"},
               [&] { open_checkpoint(b); });
}

/// A manifest whose checksum is right, with one text in it replaced.
std::string forged(const std::string& from, const std::string& to) {
  Manifest manifest = manifest_of(1);
  manifest.shards = {{"stage_00.tensors", 0, {100, 1}}};
  std::string text = manifest_text(manifest);
  text.replace(text.find(from), from.size(), to);
  text.resize(text.size() - 16 - 4);
  return text + fmt::format("{:016x}\"\n}}\n", checksum(as_bytes(text)));
}

TEST(Manifest, NamesWhatIsWrongInIt) {
  const auto refused = [](const std::string& from, const std::string& to, const char* part,
                          ErrorCode code = ErrorCode::bad_file) {
    expect_error(code, {"manifest.json", part},
                 [&] { parse_manifest(forged(from, to), "manifest.json"); });
  };
  EXPECT_EQ(parse_manifest(forged("seed: 1", "seed: 2"), "m").options,
            "seed: 2\ntrain: {lr: 0.1}\n");
  refused("\"format\": 1", "\"format\": 2", "format 2", ErrorCode::unsupported);
  refused("\"step\": 1", "\"step\": -1", "'step'");
  refused("\"step\": 1", "\"step\": 18446744073709551615", "18446744073709551615");
  refused("\"step\": 1", "\"step\": 1, \"step\": 1", "twice");
  refused("\"step\"", "\"stop\"", "'step' is missing");
  refused("\"step\": 1", "\"step\": 1, \"more\": 1", "10 members");
  refused("stage_00.tensors", "../../secret", "../../secret");
  refused("stage_00.tensors", "/etc/passwd", "/etc/passwd");
  refused("stage_00.tensors", "..", "not a shard name");
  refused("\"stage\": 0", "\"stage\": 4294967296", "4294967296");
  refused("\"run\": {", "\"run\": [", "JSON");
}

}  // namespace
}  // namespace troupe
