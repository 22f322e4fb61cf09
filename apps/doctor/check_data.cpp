// The data set of the options file.
#include <fmt/format.h>

#include "apps/doctor/checks.h"
#include "apps/error_wording.h"
#include "runtime/text.h"

namespace troupe {

DataCheck check_data(const Options& options) {
  const std::string check = "data";
  try {
    const Dataset dataset = open_dataset(options);
    for (const Split split : {Split::train, Split::test})
      static_cast<void>(dataset.stored(split));  // reads the files to their ends
    return {.observation = {check,
                            fmt::format("{}: {} training and {} test samples", dataset.name(),
                                        dataset.count(Split::train), dataset.count(Split::test))},
            .findings = {}};
  } catch (const Error& error) {
    const Error worded = in_words_of_the_command(error, options.own);
    return {.observation = {check, options.dataset.name},
            .findings = {{Finding::Severity::error, check, worded.message(), worded.remedy()}}};
  }
}

}  // namespace troupe
