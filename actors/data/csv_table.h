#pragma once
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/data/dataset.h"

namespace troupe {

/// The kind of a table's targets.
enum class TargetKind : std::uint8_t {
  automatic,  ///< classes for one column of whole numbers or of texts, else numbers
  classes,
  numbers,
};

/// All kinds of targets, with their names in options files.
inline constexpr std::array<std::pair<std::string_view, TargetKind>, 3> target_kind_names{
    {{"auto", TargetKind::automatic},
     {"classes", TargetKind::classes},
     {"numbers", TargetKind::numbers}}};

/// Tables of numbers: train.csv and test.csv in a folder, or one file. The first row names the
/// columns; cells are separated by commas and may be quoted, but hold neither quotes nor line ends.
/// All columns but the targets are features, f32. Where a class is a text, all are, numbered in the
/// order of their bytes; whole numbers keep their values.
struct CsvTable {
  static constexpr std::string_view name = "csv";
  std::filesystem::path path = {};       ///< a file, or the folder of train.csv and test.csv
  std::vector<std::string> target = {};  ///< names of columns; empty: the last one
  TargetKind targets = TargetKind::automatic;
  double test_fraction = 0;  ///< share of the training rows that is held out for testing

  OptionFields options();
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe
