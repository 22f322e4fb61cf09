#pragma once

namespace troupe {

/// Makes std::terminate print an error and exit with its code when a thread or an allocation failed
/// where no handler of this program can catch it: CAF terminates the process when a thread does not
/// start or a message cannot be allocated. Other terminations abort as usual.
void prepare_for_memory_shortage();

}  // namespace troupe
