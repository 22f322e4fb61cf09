// What a job script says, and what it keeps to itself.
#include "apps/jobscript/script.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "apps/jobscript/job.h"
#include "tests/unit/apps/profile_folder.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Script : public ProfileFolder {
 protected:
  Script() {
    file("small.yaml", small_profile);
    request_.nodes = 1;
    request_.time = std::chrono::hours(1);
    request_.name = "run";
    request_.gpus_per_node = 0;
  }
  JobLayout small_job() const { return lay_out_job(find_profile("small"), request_, {}); }
  std::string script_of(const JobLayout& plan) const {
    return job_script(plan, request_, {"", "o.yaml", {}, ""});
  }

  JobRequest request_;
};

TEST_F(Script, KeepsItsNotesWithinALine) {
  JobLayout plan = small_job();
  plan.notes = {
      "a note of many words which by itself would be far longer than what an editor "
      "shows of a line, so that it is broken, but not within " +
      std::string(120, 'x')};
  std::istringstream text(script_of(plan));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line) && !line.starts_with("#SBATCH");)
    if (line.starts_with("# Note") || line.starts_with("#  ")) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_LE(lines[0].size(), 100u);
  EXPECT_THAT(lines[1], AllOf(StartsWith("#   "), EndsWith("but not within")));
  EXPECT_EQ(lines[2], "#   " + std::string(120, 'x') + ".");
}

TEST_F(Script, ExpandsVariablesInAProfilesValuesButRunsNoCommand) {
  JobLayout plan = small_job();
  plan.profile.environment.push_back({.name = "CACHE", .text = "$HOME/a \"b\" `touch ran`"});
  EXPECT_THAT(script_of(plan), HasSubstr("\nexport CACHE=\"$HOME/a \\\"b\\\" \\`touch ran\\`\"\n"));
}

TEST_F(Script, LogsWhatItWasGivenButNoKey) {
  const std::string text = script_of(small_job());
  const std::size_t begin = text.find("env |");
  std::ofstream(root_ / "env.sh") << text.substr(begin, text.find('\n', begin) - begin) << "\n";
  const std::string log = (root_ / "log").string();
  ASSERT_EQ(std::system(("SLURM_JOB_ID=7 TROUPE_HOME=/h TROUPE_JOB_KEY=secret OTHER=x sh " +
                         (root_ / "env.sh").string() + " > " + log)
                            .c_str()),
            0);
  std::ifstream stream(log);
  const std::string logged(std::istreambuf_iterator<char>(stream), {});
  EXPECT_THAT(logged, AllOf(HasSubstr("SLURM_JOB_ID=7\n"), HasSubstr("TROUPE_HOME=/h\n"),
                            Not(HasSubstr("secret")), Not(HasSubstr("OTHER"))));
}

}  // namespace
}  // namespace troupe
