#include "runtime/control/job_key.h"

#include <fmt/format.h>
#include <zmq.h>

#include <array>
#include <cstdint>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr std::size_t key_bytes = 32;
constexpr std::size_t z85_chars = 41;  // with the closing zero
using Z85 = std::array<char, z85_chars>;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

[[noreturn]] void refuse(std::size_t length) {
  throw Error(ErrorCode::bad_options,
              fmt::format("the job's key is invalid: it has {} characters, but must have 64 "
                          "hexadecimal digits",
                          length),
              "set TROUPE_JOB_KEY to the value that the launcher set, or unset it");
}

}  // namespace

JobKey JobKey::generate() {
  Z85 public_key{};
  Z85 secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    throw Error(ErrorCode::unsupported, "this libzmq was built without CURVE",
                "install libzmq5 of Debian, or build libzmq with libsodium");
  return {public_key.data(), secret_key.data()};
}

JobKey JobKey::parse(const std::string& text) {
  if (text.size() != 2 * key_bytes) refuse(text.size());
  std::array<std::uint8_t, key_bytes> raw{};
  for (std::size_t i = 0; i < key_bytes; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) refuse(text.size());
    raw[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  Z85 public_key{};
  Z85 secret_key{};
  if (zmq_z85_encode(secret_key.data(), raw.data(), raw.size()) == nullptr ||
      zmq_curve_public(public_key.data(), secret_key.data()) != 0)
    refuse(text.size());
  return {public_key.data(), secret_key.data()};
}

std::string JobKey::text() const {
  std::array<std::uint8_t, key_bytes> raw{};
  zmq_z85_decode(raw.data(), secret_key.c_str());
  std::string digits;
  for (const std::uint8_t byte : raw) digits += fmt::format("{:02x}", byte);
  return digits;
}

}  // namespace troupe
