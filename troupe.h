#pragma once
// Everything a program needs to compose and train an actor graph. Installed as <troupe/troupe.h>;
// the headers below are the reference, each for its own subject.
//
// Where a header says nothing else: a function without state may be called from any thread at once,
// and an object is used by one thread at a time. An actor's functions are called by the runtime,
// one at a time; what they throw ends this incarnation of the actor, or the run (is_lasting in
// runtime/error.h). Mistakes are thrown as Error, with a code of ErrorCode.

// The actors of a training graph, in the order in which a micro-batch meets them.
#include "actors/checkpoint_files.h"     // from snapshots to files
#include "actors/checkpoint_writer.h"    // writes snapshots while training continues
#include "actors/data/datasets.h"        // data sets, known and your own
#include "actors/evaluate.h"             // weights on the test set
#include "actors/loader.h"               // sends micro-batches
#include "actors/loss.h"                 // losses and scores
#include "actors/memory_bound.h"         // what a pipeline can occupy
#include "actors/messages.h"             // every message
#include "actors/monitor.h"              // losses of steps, counts of test sets
#include "actors/options_text.h"         // what checkpoints say of model and data
#include "actors/partial_weights.h"      // the weights of a file that fit a model
#include "actors/pipeline.h"             // build_pipeline: all of them, wired
#include "actors/reducer.h"              // sums gradients in a fixed tree
#include "actors/schedule.h"             // GPipe, 1F1B, zero bubble
#include "actors/schedule_simulation.h"  // a step of a pipeline, simulated
#include "actors/stage.h"                // a part of the model
#include "actors/starting_state.h"       // runs that resume from a checkpoint
#include "actors/timeline.h"             // what happens in which step
#include "actors/weights_file.h"         // files and folders of weights, to read

// Actors of your own: ports, graphs and runs.
#include "runtime/flow/actor.h"
#include "runtime/flow/graph.h"
#include "runtime/flow/run.h"
#include "runtime/remote/joined_world.h"  // one run of several processes

// Where it is computed.
#include "ops/backend.h"    // what a device can compute
#include "ops/devices.h"    // a GPU, if one can be used
#include "ops/on_device.h"  // tensors on other devices
#include "ops/widened.h"    // tensors of 16 bits

// Models and their parts.
#include "ops/models/models.h"        // models, known and your own
#include "ops/nn/layers.h"            // the layers that they are made of
#include "ops/nn/network.h"           // the arithmetic of one stage
#include "ops/nn/sequential.h"        // layers one after another
#include "ops/nn/state.h"             // weights and running statistics
#include "ops/optim/learning_rate.h"  // learning rates
#include "ops/optim/loss_scale.h"     // loss scaling
#include "ops/optim/optimizers.h"     // optimizers, known and your own

// What layers compute: for nn::Layer, and for Tape::record in modules of your own.
#include "ops/primitives/activation.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/attention.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/embedding.h"
#include "ops/primitives/layer_norm.h"
#include "ops/primitives/linear.h"
#include "ops/primitives/matmul.h"
#include "ops/primitives/movement.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reduction.h"
#include "ops/primitives/reshape.h"
#include "ops/primitives/softmax.h"

// The troupe command, for a program with definitions of its own.
#include "apps/command.h"

// What everything is made of.
#include "runtime/error.h"                   // what is thrown and returned
#include "runtime/file/checkpoint.h"         // checkpoints, to write and to read
#include "runtime/file/checkpoint_folder.h"  // the newest complete one
#include "runtime/file/safetensors.h"        // weights for other programs,
#include "runtime/file/torch_file.h"         // and for PyTorch, to write
#include "runtime/program.h"                 // run_main: errors as messages and exit codes
#include "runtime/random.h"                  // counter-based random numbers
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/text.h"  // tensors to print
