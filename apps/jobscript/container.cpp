#include "apps/jobscript/container.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/shell_text.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// Troupe is made of packages of Debian 12, so the image is one; `./dev build` installs them. It
/// gets CUDA from PyPI, and the installation takes CUDA's libraries along.
std::string build_steps(const JobLayout& layout) {
  return fmt::format(
      "{} -DTROUPE_TESTS=OFF -DTROUPE_BENCH=OFF && "
      "cmake --install build/release --prefix /usr/local && rm -rf /src",
      layout.computes_on_gpu() ? build_for(layout.kind) : "./dev build");
}

/// A file beside the script, from where the job is submitted.
std::string beside(const JobRequest& request, const char* name) {
  return (std::filesystem::path(request.folder) / name).lexically_normal().string();
}

/// The same as an absolute path; `here` is the folder that the job is submitted in.
std::string from_anywhere(const std::string& path, const char* here = "$PWD") {
  return path.starts_with('/') ? path : fmt::format("{}/{}", here, path);
}

std::string architecture_name(const JobLayout& layout) {
  return layout.kind.architecture == "aarch64" ? "arm64" : "amd64";
}

DefinitionFile containerfile(const JobLayout& layout, const JobRequest& request) {
  std::string how = fmt::format("podman build --platform linux/{} -f {} -t troupe SOURCES",
                                architecture_name(layout), beside(request, "Containerfile"));
  if (request.container == "edf")
    how += fmt::format(" && enroot import -x mount -o {} podman://troupe", image_of(request));
  return {
      "Containerfile",
      fmt::format(
          "# Troupe in a container, for {} ({}). SOURCES is a fresh clone of Troupe. On a node of\n"
          "# this architecture, in the folder that the job is submitted in:\n"
          "#   {}\n"
          "FROM docker.io/library/debian:12\n"
          "COPY . /src\n"
          "RUN cd /src && {}\n"
          "{}",
          layout.profile.title, layout.kind.architecture, how, build_steps(layout),
          // Without them, enroot and Docker bring no driver into the container.
          layout.computes_on_gpu()
              ? "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n"
              : "")};
}

DefinitionFile apptainer_definition(const JobLayout& layout, const JobRequest& request) {
  const auto from_sources = [](const std::string& path) { return from_anywhere(path, "$OLDPWD"); };
  return {
      "troupe.def",
      fmt::format(
          "# Troupe in a container, for {} ({}). SOURCES is a fresh clone of Troupe. On a node of\n"
          "# this architecture, in the folder that the job is submitted in:\n"
          "#   (cd SOURCES && apptainer build \"{}\" \"{}\")\n"
          "Bootstrap: docker\n"
          "From: debian:12\n\n"
          "%files\n"
          "    . /src\n\n"
          "%post\n"
          "    cd /src\n"
          "    {}\n\n"
          "%runscript\n"
          "    exec /usr/local/bin/troupe \"$@\"\n",
          layout.profile.title, layout.kind.architecture, from_sources(image_of(request)),
          from_sources(beside(request, "troupe.def")), build_steps(layout))};
}

/// A basic string of TOML.
std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{:c}", c);
    else if (is_control(c))
      quoted += fmt::format("\\u{:04x}", c);
    else
      quoted += static_cast<char>(c);
  }
  return quoted + '"';
}

/// A mount by both of its ends; of one folder alone both are the same.
std::string from_and_to(const std::string& mount) {
  return mount.find(':') == std::string::npos ? fmt::format("{0}:{0}", mount) : mount;
}

DefinitionFile edf(const JobLayout& layout, const JobRequest& request) {
  const std::string image = image_of(request);
  const bool is_file = request.image.empty() || image.find('/') == std::string::npos;
  std::string text = fmt::format(
      "# Environment of the container engine on {}; the job script hands it to srun.\n"
      "image = {}\n",
      layout.profile.title, toml_text(is_file ? from_anywhere(image, "${PWD}") : image));
  std::vector<std::string> mounts{toml_text("${PWD}:${PWD}")};
  for (const std::string& mount : layout.profile.container.mounts)
    mounts.push_back(toml_text(from_and_to(mount)));
  if (const std::string& data = request.data_folder; !data.empty())
    mounts.push_back(toml_text(from_and_to(data)));
  text += fmt::format("mounts = [{}]\n", fmt::join(mounts, ", "));
  text += "workdir = \"${PWD}\"\n";
  if (layout.gpus > 0 && !layout.profile.container.annotations.empty()) {
    text += "\n[annotations]\n";
    for (const auto& line : layout.profile.container.annotations)
      text += fmt::format("# {}\n{} = {}\n", line.why, line.name, toml_text(line.text));
  }
  text += "\n[env]\n";
  for (const auto& line : layout.profile.environment)
    if (layout.holds(line))
      text += fmt::format("# {}\n{} = {}\n", line.why, line.name, toml_text(line.text));
  return {"troupe.toml", text};
}

}  // namespace

std::string image_of(const JobRequest& request) {
  if (!request.image.empty()) return request.image;
  if (request.container == "edf") return beside(request, "troupe.sqsh");
  return request.container == "apptainer" ? beside(request, "troupe.sif")
                                          : "localhost/troupe:latest";
}

std::string container_test(const JobRequest& request) {
  const std::string image = image_of(request);
  if (request.container == "podman") return "podman image exists " + shell_word(image);
  const bool is_file = image.ends_with(".sif") || image.ends_with(".sqsh");
  return request.container.empty() || !is_file ? "" : "ls " + shell_word(image);
}

std::vector<DefinitionFile> container_files(const JobLayout& layout, const JobRequest& request) {
  if (request.container.empty()) return {};
  const auto& kinds = layout.profile.container.kinds;
  if (std::find(kinds.begin(), kinds.end(), request.container) == kinds.end())
    throw Error(
        ErrorCode::usage,
        fmt::format("{} does not run containers with {}", layout.profile.title, request.container),
        kinds.empty() ? "leave --container out"
                      : fmt::format("--container {}", fmt::join(kinds, " or ")));
  if (request.container == "edf") return {containerfile(layout, request), edf(layout, request)};
  if (request.container == "apptainer") return {apptainer_definition(layout, request)};
  return {containerfile(layout, request)};
}

std::string container_setup(const JobLayout& layout, const JobRequest& request) {
  if (request.container == "edf")
    return "# The environment goes to srun, not to sbatch: the script itself runs outside of it.\n"
           "srun+=(--environment=\"" +
           from_anywhere(beside(request, "troupe.toml")) + "\")\n";
  const bool apptainer = request.container == "apptainer";
  if (!apptainer && request.container != "podman") return {};
  std::string words =
      apptainer ? "apptainer exec --bind \"$PWD\""
                : "podman run --rm --network host --ipc host --pid host --workdir \"$PWD\""
                  " --volume \"$PWD:$PWD\"";
  if (layout.gpus > 0 && layout.kind.gpu_cuda)
    words += apptainer ? " --nv" : " --device nvidia.com/gpu=all";
  const char* mounts = apptainer ? " --bind " : " --volume ";
  for (const std::string& mount : layout.profile.container.mounts)
    words += mounts + (apptainer ? mount : from_and_to(mount));
  if (const std::string& data = request.data_folder; !data.empty())
    words += mounts + shell_word(apptainer ? data : from_and_to(data));
  if (!apptainer)
    for (const char* prefix : {"SLURM", "TROUPE", "OMP", "CUDA", "NCCL", "FI"})
      words += fmt::format(" --env '{}_*'", prefix);
  for (const std::string& option : layout.profile.container.options) words += " " + option;
  return fmt::format("container=({} {})\n", words, shell_word(image_of(request)));
}

std::string container_prefix(const JobRequest& request) {
  return request.container.empty() || request.container == "edf" ? "" : "\"${container[@]}\" ";
}

}  // namespace troupe
