#pragma once
// Inside the transports: collectives, once for all of them.

#include "runtime/tensor/tensor.h"
#include "runtime/transport/exchange.h"

namespace troupe::transport {

/// This rank's part of a collective, from the meeting of the ranks to the end. Throws Error.
///
/// Sums are reduce-scatter and all-gather: rank r receives everybody's part r, finishes the whole
/// tree over ranks on it, and sends the sum to all. A rank sends and receives 2 (n - 1) / n times
/// the bytes, as in a ring, but each element is summed in one place and in one order, however the
/// tensor is cut. See Rabenseifner, "Optimization of collective reduction operations" (2004).
void run_collective(Exchange& exchange, const CollectiveCall& call, int rank, int size,
                    const Tensor& in, const Tensor& out);

}  // namespace troupe::transport
