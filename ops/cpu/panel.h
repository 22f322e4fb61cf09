#pragma once
#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// A contiguous part of one run of a Panel.
struct Piece {
  std::int64_t run = 0;
  std::int64_t begin = 0;  ///< within the run, a multiple of Panel::period
  std::int64_t length = 0;
  std::int64_t offset = 0;  ///< of its first element in the tensor's memory
  std::int64_t group = 0;   ///< which of Panel::groups it belongs to
};

/// Describes the position of the channels in a tensor's memory in the same form for all layouts, so
/// that one kernel serves all layouts:
///
/// memory is `runs` stretches of `run_length` elements; element i of run r belongs to channel
/// (r % groups) * run_channels + i % run_channels.
///
///   layout      runs        run_length   groups   run_channels
///   [N, C]      1           N C          1        C
///   nhwc        1           N H W C      1        C
///   nchw16c     N C/16      H W 16       C/16     16
///   row_major   N C         H W          C        1
///
/// Coefficients of the channels are laid out as tiles (one per group) that repeat every `period`
/// elements, a multiple of 64: a kernel then loads coefficients as vectors, without looking at the
/// channels. Runs are divided into pieces of a few thousand elements, always at the same places.
/// Pieces are distributed over threads and are the leaves of every sum.
struct Panel {
  std::int64_t runs = 0;
  std::int64_t run_length = 0;
  std::int64_t groups = 1;
  std::int64_t run_channels = 1;
  std::int64_t period = 64;
  std::int64_t run_pieces = 0;    ///< pieces of each run
  std::int64_t piece_length = 0;  ///< of all but the last piece of a run; a multiple of period

  /// Of a tensor [N, C] or [N, C, H, W] in any layout; `operation` is for the message of the Error
  /// that other shapes, and tensors without elements, get.
  static Panel of(const Tensor& x, const char* operation);

  std::int64_t channels() const { return groups * run_channels; }
  std::int64_t elements_per_channel() const { return runs * run_length / channels(); }
  std::int64_t pieces() const { return runs * run_pieces; }
  Piece piece(std::int64_t index) const;
  /// How many pieces a thread should get at least.
  std::int64_t grain() const;

  /// Writes the tiles of per-channel values: groups * period elements of f32 or f64.
  template <class T>
  void fill_tiles(const T* values, T* tiles) const;
  std::int64_t tile_elements() const { return groups * period; }
};

}  // namespace troupe::cpu
