// Writes the files that fuzzing begins from: fuzz_seeds CORPUS GOLDEN

#include <zlib.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/control/detail/wire.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/manifest.h"
#include "runtime/file/shard_format.h"
#include "runtime/file/zip.h"
#include "runtime/remote/flow_wire.h"
#include "tests/fuzz/flow_graph.h"
#include "tests/unit/ops/onnx_model.h"
#include "tests/unit/runtime/file/tar_text.h"
#include "tests/unit/runtime/file/torch_text.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace {

using namespace troupe;
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void idx_seeds(const fs::path& folder) {
  std::string text("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c", 16);
  for (int i = 0; i < 2 * 28 * 28; ++i) text += static_cast<char>(i * i / 7);
  write(folder / "images", text);
  const gzFile packed = gzopen((folder / "images.gz").c_str(), "wb");
  gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
}

void npy_seeds(const fs::path& folder) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  write(folder / "one", std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' +
                            header + std::string(24, 'x'));
  write(folder / "three", std::string("\x93NUMPY\3\0", 8) + static_cast<char>(header.size()) +
                              std::string(3, '\0') + header + std::string(24, 'x'));
}

void onnx_seeds(const fs::path& folder) {
  using testing_ops::Dims, testing_ops::OnnxModel;
  OnnxModel layers({2, 6, 6});
  layers.weight("c.weight", {4, 2, 3, 3});
  for (const char* name : {"n.weight", "n.bias", "n.running_mean", "n.running_var"})
    layers.weight(name, {4});
  layers.signature("w: PARAMETER target='c.weight'\nm: BUFFER target='n.running_mean'\n");
  layers.node("Conv", {"x", "c.weight"}, "c", {{"pads", Dims{1, 1, 1, 1}}});
  layers.node("BatchNormalization", {"c", "n.weight", "n.bias", "n.running_mean", "n.running_var"},
              "n", {{"momentum", 0.9}});
  layers.node("MaxPool", {"n"}, "p", {{"kernel_shape", Dims{2, 2}}, {"strides", Dims{2, 2}}});
  layers.node("Sigmoid", {"p"}, "s");
  layers.node("Mul", {"p", "s"}, "m");
  layers.node("Flatten", {"m"}, "y");
  write(folder / "layers", layers.bytes());

  OnnxModel shapes({4, 6}, 7);
  shapes.weight("t", {5, 3});
  shapes.node("Gather", {"t", "x"}, "g");
  shapes.node("Shape", {"g"}, "s", {{"start", std::int64_t{0}}, {"end", std::int64_t{2}}});
  shapes.integers("rest", {-1});
  shapes.node("Concat", {"s", "rest"}, "to", {{"axis", std::int64_t{0}}});
  shapes.node("Reshape", {"g", "to"}, "r");
  shapes.node("Transpose", {"r"}, "k", {{"perm", Dims{0, 2, 1}}});
  shapes.node("MatMul", {"r", "k"}, "p");
  shapes.node("Softmax", {"p"}, "w", {{"axis", std::int64_t{-1}}});
  shapes.node("MatMul", {"w", "r"}, "y");
  write(folder / "shapes", shapes.bytes());
}

void zip_seeds(const fs::path& folder) {
  using test::zip_of;
  write(folder / "plain", zip_of({{"a/b", "one"}, {"a/c", std::string(1000, 'x'), true}}));
  write(folder / "wide", zip_of({{.name = "a", .content = "one", .flags = 0x808, .wide = true},
                                 {.name = "b",
                                  .content = std::string(1000, 'x'),
                                  .deflated = true,
                                  .flags = 8,
                                  .wide = true}}));
}

void torch_seeds(const fs::path& corpus, const fs::path& golden) {
  for (const auto& file : fs::directory_iterator(golden))
    if (file.is_regular_file())
      write(corpus / "torch_file" / file.path().filename(), read(file.path()));
  for (const char* name : {"sharded", "sharded_channels", "distributed"})
    write(corpus / "distributed_checkpoint" / name, read(golden / name / ".metadata"));
  using test::pickled_dict, test::PickledTensor, test::torch_file_of;
  write(corpus / "torch_file" / "made",
        torch_file_of(pickled_dict({{"w", PickledTensor{.shape = {1, 2}, .strides = {0, 1}}.text()},
                                    {"v", PickledTensor{}.text()}})));
}

void csv_seeds(const fs::path& folder) {
  const std::string numbers = "a,b,c\n1,2.5,0\n-3e2,4,1\n5,6,2\n7,8,1\n";
  for (const char kind : {'\0', '\1', '\2'})
    write(folder / ("numbers" + std::to_string(kind)), kind + numbers);
  const std::string texts = "\"a\",b\r\n1,\"x, y\"\r\n2,\"say \"\"z\"\"\"\r\n3,x\r\n4,z\r\n";
  write(folder / "texts", '\0' + texts);
}

void tar_seeds(const fs::path& folder) {
  using test::tar_member;
  const std::string text = tar_member("folder/", "", '5') + tar_member("x", "13 mtime=1.5\n", 'x') +
                           tar_member("folder/one", "1") +
                           tar_member("folder/two", std::string(600, '2')) + test::end_of_tar;
  write(folder / "plain", text);
  write(folder / "packed", test::gzip(text));
}

void checkpoint_seeds(const fs::path& folder) {
  Tensor ramp = Tensor::zeros({40, 5});
  for (int i = 0; i < 100; ++i) ramp.data<float>()[i] = static_cast<float>(i) / 8;
  CheckpointWriteOptions options;
  options.block_bytes = 256;
  Manifest manifest;
  manifest.run = {{"version", "0"}};
  manifest.position = R"({"epoch":1})";
  const fs::path out = folder.parent_path() / "written";
  const fs::path path =
      write_checkpoint(out, manifest, {{0, {{"w", ramp}, {"n", Tensor::zeros({}, DType::i64)}}}},
                       options)
          .value();

  const std::string text = read(path / manifest_file);
  write(folder / "manifest", '\0' + text.substr(0, text.find(",\n  \"checksum\"")));
  const std::string shard = read(path / "stage_00.tensors");
  write(folder / "shard", '\3' + shard);
  using shard_format::head, shard_format::trailer_bytes;
  std::uint64_t length = 0;
  std::memcpy(&length, shard.data() + shard.size() - trailer_bytes, sizeof length);
  const std::size_t index_begin = shard.size() - trailer_bytes - length;
  const std::string blocks = shard.substr(head.size(), index_begin - head.size());
  write(folder / "index", '\1' + shard.substr(index_begin, length) + '\0' + blocks);
  // The first block alone: 64 elements of 4 bytes.
  write(folder / "block", std::string("\2\2\x40\0", 4) + blocks);
}

/// The JSON of a golden model, without what its reader ignores.
void pt2_seeds(const fs::path& folder, const fs::path& golden) {
  for (const char* name : {"tied", "vgg", "vit", "masked", "recurrent"}) {
    const ZipArchive archive = ZipArchive::open(golden / "graphs" / (std::string(name) + ".pt2"));
    const auto document = [&](const std::string& member) {
      return nlohmann::json::parse(
          archive.content(archive.at(name + ("/" + member)), UINT64_MAX).text());
    };
    nlohmann::json model = document("models/model.json");
    model["graph_module"].erase("module_call_graph");
    for (auto& node : model["graph_module"]["graph"]["nodes"])
      node["metadata"] = nlohmann::json::object();
    write(folder / name, model.dump() + '\0' +
                             document("data/weights/model_weights_config.json").dump() + '\0' +
                             document("data/constants/model_constants_config.json").dump());
  }
}

void flow_seeds(const fs::path& folder) {
  const Graph graph = fuzzed_graph();
  const auto payload = std::make_shared<Sample>(
      Sample{Tensor::zeros({2, 3}), {"a", ""}, {Tensor(), Tensor::zeros({1})}, -1});
  const Packet packet{.header = {.incarnation = 7}, .payload = payload};
  write(folder / "packet", remote::encode(packet, graph).bytes);
  write(folder / "credit", remote::encode(Credit{2, 3, 4}, graph).bytes);
  const Error error(ErrorCode::io, "what", "remedy");
  const std::vector<RunMessage> messages = {Vote{1, 2, 3},
                                            ActorFailed{1, 2, "why", error},
                                            ActorStatus{1, true, true},
                                            RunFailed{error},
                                            TracePart{.events = {{1, "F", {1, Purpose::train, 2}}}},
                                            ProcessEnded{.actors = {{.name = "stage/0"}}},
                                            Commit{1, true, true, true},
                                            Replacement{.actors = {1, 2}, .newest = Commit{}},
                                            EndRun{.failure = error}};
  for (std::size_t i = 0; i < messages.size(); ++i)
    write(folder / ("run_message" + std::to_string(i)), remote::encode(messages[i], graph).bytes);
}

/// The metadata of each array in a group, with one of its chunks.
void zarr_seeds(const fs::path& folder, const fs::path& group) {
  for (const auto& array : fs::directory_iterator(group)) {
    if (!array.is_directory()) continue;
    std::string metadata, chunk;
    for (const auto& file : fs::recursive_directory_iterator(array)) {
      const std::string name = file.path().filename();
      if (!file.is_regular_file() || name == ".zattrs") continue;
      (name == ".zarray" || name == "zarr.json" ? metadata : chunk) = read(file.path());
    }
    write(folder / (group.stem().string() + "_" + array.path().filename().string()),
          metadata.append(1, '\0').append(chunk));
  }
}

void wire_seeds(const fs::path& folder) {
  wire::Envelope envelope;
  envelope.set_version(control::wire_version);
  envelope.set_run(control::run_tag("run"));
  envelope.set_sequence(1);
  wire::Join& join = *envelope.mutable_join();
  join.set_run("run");
  join.set_rank(2);
  join.set_size(3);
  join.set_host("host");
  join.set_address("127.0.0.1");
  join.set_port(29400);
  write(folder / "join", control::encode(envelope));
  wire::Welcome& welcome = *envelope.mutable_welcome();
  welcome.add_hosts()->set_name("host");
  welcome.add_host(0);
  welcome.add_port(29400);
  welcome.add_pid(1);
  welcome.add_session(7);
  write(folder / "welcome", control::encode(envelope));
  envelope.set_message("message");
  write(folder / "message", control::encode(envelope));
  envelope.set_sequence(0);
  envelope.mutable_refused()->set_message("no");
  write(folder / "refused", control::encode(envelope));
}

}  // namespace

int main(int, char** arguments) {
  const fs::path corpus = arguments[1];
  const fs::path golden = arguments[2];
  for (const char* name : {"idx", "image", "npy", "npz", "zip", "onnx", "torch_file",
                           "distributed_checkpoint", "hdf5", "zarr", "csv", "safetensors", "pickle",
                           "tar", "checkpoint", "pt2", "options", "wire", "flow"})
    fs::create_directories(corpus / name);
  idx_seeds(corpus / "idx");
  npy_seeds(corpus / "npy");
  zip_seeds(corpus / "zip");
  torch_seeds(corpus, golden / "torch");
  onnx_seeds(corpus / "onnx");
  for (const auto& file : fs::directory_iterator(golden / "images"))
    write(corpus / "image" / file.path().filename(), read(file.path()));
  for (const auto& file : fs::directory_iterator(golden / "arrays")) {
    if (file.is_directory()) {
      zarr_seeds(corpus / "zarr", file.path());
      continue;
    }
    const std::string extension = file.path().extension().string().substr(1);
    const std::string kind = extension == "h5" || extension == "nc" ? "hdf5" : extension;
    write(corpus / kind / file.path().filename(), read(file.path()));
  }
  csv_seeds(corpus / "csv");
  write(corpus / "safetensors" / "python", read(golden / "safetensors.safetensors"));
  for (const auto& file : fs::directory_iterator(golden / "pickles"))
    write(corpus / "pickle" / file.path().stem(), read(file.path()));
  tar_seeds(corpus / "tar");
  checkpoint_seeds(corpus / "checkpoint");
  pt2_seeds(corpus / "pt2", golden);
  wire_seeds(corpus / "wire");
  flow_seeds(corpus / "flow");
  write(corpus / "options" / "recipe", read(golden / "../../recipes/demo.yaml"));
  write(corpus / "options" / "override",
        std::string("faults: [{actor: stage/0}]\n") + '\0' + "parallel={data: 2, partition: auto}");
}
