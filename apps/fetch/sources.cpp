#include "apps/fetch/sources.h"

#include <algorithm>

namespace troupe {

const std::vector<FetchSource>& fetch_sources() {
  static const std::vector<FetchSource> sources = {
      {"cifar10",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-10-python.tar.gz", 170'498'071, "c58f30108f718f92721af3b95e74349a"}}},
      {"cifar100",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-100-python.tar.gz", 169'001'437, "eb9058c3a382ffc7106e4002c42a8d85"}}},
      {"mnist",
       {"https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/"},
       {{"train-images-idx3-ubyte.gz", 9'912'422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"train-labels-idx1-ubyte.gz", 28'881, "d53e105ee54ea40749a09fcbcd1e9432"},
        {"t10k-images-idx3-ubyte.gz", 1'648'877, "9fb629c4189551a2d022fa330f9573f3"},
        {"t10k-labels-idx1-ubyte.gz", 4'542, "ec29112dd5afa0611ce80d1b7f02629c"}}},
      {"fashion_mnist",
       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
       {{"train-images-idx3-ubyte.gz", 26'421'880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        {"train-labels-idx1-ubyte.gz", 29'515, "25c81989df183df01b3e8a0aad5dffbe"},
        {"t10k-images-idx3-ubyte.gz", 4'422'102, "bef4ecab320f06d8554ea6380940ec79"},
        {"t10k-labels-idx1-ubyte.gz", 5'148, "bb300cfdad3c16e7a12a480ee83cd310"}}}};
  return sources;
}

const FetchSource* find_fetch_source(std::string_view name) {
  const auto found = std::ranges::find(fetch_sources(), name, &FetchSource::name);
  return found == fetch_sources().end() ? nullptr : &*found;
}

}  // namespace troupe
