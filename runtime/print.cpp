#include "runtime/print.h"

#include <fcntl.h>
#include <unistd.h>

namespace troupe {

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) {
      // The lowest free number is given out; reading from the first, writing to the others fails.
      const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
      if (opened >= 0 && opened != stream) ::close(opened);
    }
}

}  // namespace troupe
