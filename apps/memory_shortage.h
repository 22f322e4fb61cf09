#pragma once

namespace troupe {

/// Lets the command end with an error and its exit code where memory is too short for a thread or
/// an allocation at a place that nothing of ours can catch: CAF ends the process when one of its
/// threads does not start, or when there is no room for a message. Other terminations abort as
/// ever.
void prepare_for_memory_shortage();

}  // namespace troupe
