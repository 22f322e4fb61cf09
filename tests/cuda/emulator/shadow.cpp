#include "shadow.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace cuda_on_cpu {
namespace {

// Zeroed pages come from the system when they are first touched: most memory is not.
Cell* allocate_cells(std::size_t count) {
  void* cells = std::calloc(std::max<std::size_t>(count, 1), sizeof(Cell));
  if (!cells) throw std::bad_alloc();
  return static_cast<Cell*>(cells);
}

}  // namespace

Shadow::Shadow(std::size_t bytes)
    : bytes_(bytes), cells_(allocate_cells((bytes + grain_ - 1) / grain_)) {}

Shadow::~Shadow() { std::free(cells_); }

void Shadow::refine() {
  Cell* fine = allocate_cells(bytes_);
  for (std::size_t i = 0; i < bytes_; ++i) fine[i] = cells_[i / grain_];
  std::free(cells_);
  cells_ = fine;
  grain_ = 1;
}

}  // namespace cuda_on_cpu
