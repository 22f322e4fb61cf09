#pragma once
#include <vector>

#include "ops/cuda/dnn.h"

namespace troupe::testing {

/// While one of these lives, plan_convolution has a plan for everything on the emulator, computed
/// by ops/cuda/direct_convolution.h but with the layouts and types of cuDNN's plans: so the code
/// around cuDNN is tested. Otherwise there is no cuDNN.
class PlannedConvolutions {
 public:
  /// What ConvolutionPlan says of its adds_bias.
  explicit PlannedConvolutions(bool adds_bias = true);
  ~PlannedConvolutions();
  PlannedConvolutions(const PlannedConvolutions&) = delete;
  PlannedConvolutions& operator=(const PlannedConvolutions&) = delete;

  /// What plans were made for.
  const std::vector<ConvolutionWork>& works() const;
};

}  // namespace troupe::testing
