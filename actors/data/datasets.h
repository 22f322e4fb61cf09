#pragma once
// The data sets that options files can name. To add one, write its header and source, include it
// here and append it to known_datasets.

#include <vector>

#include "actors/data/cifar.h"
#include "actors/data/csv_table.h"
#include "actors/data/hdf5_arrays.h"
#include "actors/data/idx_folder.h"
#include "actors/data/image_folder.h"
#include "actors/data/npy_folder.h"
#include "actors/data/npz_arrays.h"
#include "actors/data/synthetic.h"
#include "actors/data/zarr_arrays.h"

namespace troupe {

inline std::vector<DatasetSource> known_datasets() {
  return {FashionMnist{}, Mnist{},     IdxFolder{},  Cifar10{},    Cifar100{}, ImageFolder{},
          NpyFolder{},    NpzArrays{}, Hdf5Arrays{}, ZarrArrays{}, CsvTable{}, Synthetic{}};
}

}  // namespace troupe
