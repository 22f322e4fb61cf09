#pragma once
// Files of CIFAR as texts, in the forms in which it is published: for the tests of what reads them.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/file/tar_text.h"

namespace troupe::test {

/// The pixels of a sample whose first one is `first`.
inline std::string cifar_image(int first) {
  std::string pixels(3072, '\0');
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<char>((static_cast<std::size_t>(first) + i * 7) % 251);
  return pixels;
}

/// Samples by label; sample i has the image number `first` + i.
struct CifarSamples {
  int first = 0;
  std::vector<int> labels;
};

/// Records; two label bytes with 100 classes, of which the first is a coarse label.
inline std::string cifar_records(const CifarSamples& samples, int classes) {
  std::string bytes;
  for (std::size_t i = 0; i < samples.labels.size(); ++i) {
    if (classes == 100) bytes += '\x07';
    bytes += static_cast<char>(samples.labels[i]);
    bytes += cifar_image(samples.first + static_cast<int>(i));
  }
  return bytes;
}

inline std::string four_bytes(std::size_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

/// As Python 2 pickled it: protocol 2 with texts as bytes.
inline std::string cifar_pickle(const CifarSamples& samples, int classes) {
  const auto text = [](const std::string& value) {
    return "U" + std::string(1, static_cast<char>(value.size())) + value;
  };
  std::string labels, pixels;
  for (std::size_t i = 0; i < samples.labels.size(); ++i) {
    labels += std::string("K") + static_cast<char>(samples.labels[i]);
    pixels += cifar_image(samples.first + static_cast<int>(i));
  }
  return "\x80\x02}(" + text(classes == 100 ? "fine_labels" : "labels") + "](" + labels + "e" +
         text("data") + "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK" +
         std::string(1, '\0') + "\x85" + text("b") + "\x87R(K\x01J" +
         four_bytes(samples.labels.size()) + "M" + std::string("\0\x0c", 2) +
         "\x86"
         "cnumpy\ndtype\n" +
         text("u1") + "\x89\x88\x87R(K\x03" + text("|") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK" +
         std::string(1, '\0') + "tb\x89T" + four_bytes(pixels.size()) + pixels + "tbu.";
}

/// The files of a data set: its folder, and names with contents.
struct CifarFolder {
  std::string name;
  std::vector<std::pair<std::string, std::string>> files;

  std::string archive() const {
    std::string text = tar_member(name + "/", "", '5');
    // The published archives are not sorted either.
    for (auto file = files.rbegin(); file != files.rend(); ++file)
      text += tar_member(name + "/" + file->first, file->second);
    return gzip(text + tar_member(name + "/readme.html", "see the page") + end_of_tar);
  }
  void write(const std::filesystem::path& below) const {
    std::filesystem::create_directories(below / name);
    for (const auto& [file, content] : files)
      std::ofstream(below / name / file, std::ios::binary | std::ios::trunc) << content;
  }
};

/// 10 * `each` training samples and 2 * `each` for testing; sample i has the label i % classes and
/// the image number i, and test sample i the image number 100 + i.
inline CifarFolder cifar_folder(int classes, bool is_pickle, int each = 1) {
  const auto samples = [&](int first, int count) {
    CifarSamples made{first, {}};
    for (int i = 0; i < count; ++i) made.labels.push_back((first % 100 + i) % classes);
    return is_pickle ? cifar_pickle(made, classes) : cifar_records(made, classes);
  };
  const std::string end = is_pickle ? "" : ".bin";
  if (classes == 100)
    return {is_pickle ? "cifar-100-python" : "cifar-100-binary",
            {{"train" + end, samples(0, 10 * each)}, {"test" + end, samples(100, 2 * each)}}};
  CifarFolder folder{is_pickle ? "cifar-10-batches-py" : "cifar-10-batches-bin", {}};
  for (int batch = 0; batch < 5; ++batch)
    folder.files.emplace_back("data_batch_" + std::to_string(batch + 1) + end,
                              samples(batch * 2 * each, 2 * each));
  folder.files.emplace_back("test_batch" + end, samples(100, 2 * each));
  return folder;
}

}  // namespace troupe::test
