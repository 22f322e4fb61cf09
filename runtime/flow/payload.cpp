#include "runtime/flow/payload.h"

namespace troupe::payload {

void Unpacker::refuse() {
  throw Error(ErrorCode::bad_message,
              "a message from another process does not hold what its type is made of",
              "run the same version of the program in every process");
}

}  // namespace troupe::payload
