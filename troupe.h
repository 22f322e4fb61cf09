#pragma once
// Everything a program needs to compose and train an actor graph. Installed as <troupe/troupe.h>;
// the headers below are the reference, each for its own subject.

#include "ops/models/model.h"  // models as lists of blocks
#include "ops/nn/module.h"     // parts of a model
#include "ops/nn/network.h"    // the arithmetic of one stage
#include "ops/nn/state.h"      // weights and running statistics
#include "runtime/error.h"     // what is thrown and returned
#include "runtime/random.h"    // counter-based random numbers
#include "runtime/tensor/tensor.h"
