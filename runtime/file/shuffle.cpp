#include "runtime/file/shuffle.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/file/shuffle.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::ScalableTag<std::uint8_t>;

// Each function moves whole vectors and returns how many elements it did; the caller does the rest.

std::size_t shuffle2(const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  const Bytes d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::Vec<Bytes> a, b;
    hn::LoadInterleaved2(d, in + 2 * i, a, b);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + n + i);
  }
  return i;
}

std::size_t unshuffle2(const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  const Bytes d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreInterleaved2(hn::LoadU(d, in + i), hn::LoadU(d, in + n + i), d, out + 2 * i);
  return i;
}

std::size_t shuffle4(const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  const Bytes d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::Vec<Bytes> a, b, c, e;
    hn::LoadInterleaved4(d, in + 4 * i, a, b, c, e);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + n + i);
    hn::StoreU(c, d, out + 2 * n + i);
    hn::StoreU(e, d, out + 3 * n + i);
  }
  return i;
}

std::size_t unshuffle4(const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  const Bytes d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreInterleaved4(hn::LoadU(d, in + i), hn::LoadU(d, in + n + i),
                          hn::LoadU(d, in + 2 * n + i), hn::LoadU(d, in + 3 * n + i), d,
                          out + 4 * i);
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe {
namespace {

HWY_EXPORT(shuffle2);
HWY_EXPORT(unshuffle2);
HWY_EXPORT(shuffle4);
HWY_EXPORT(unshuffle4);

using Mover = std::size_t (*)(const std::uint8_t* in, std::size_t n, std::uint8_t* out);

// Byte k of element i is at i * element_bytes + k, and in its plane at k * n + i. Moves to the
// planes or back: whole vectors by `two` or `four` where elements are that wide, then single bytes.
void move(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
          bool to_planes, Mover two, Mover four) {
  if (in.empty()) return;
  const auto* from = reinterpret_cast<const std::uint8_t*>(in.data());
  auto* to = reinterpret_cast<std::uint8_t*>(out.data());
  const std::size_t n = in.size() / element_bytes;
  if (element_bytes == 1) return static_cast<void>(std::memcpy(to, from, n));
  const std::size_t done = element_bytes == 2   ? two(from, n, to)
                           : element_bytes == 4 ? four(from, n, to)
                                                : 0;
  for (std::size_t k = 0; k < element_bytes; ++k)
    for (std::size_t i = done; i < n; ++i) {
      const std::size_t plane = k * n + i, element = i * element_bytes + k;
      to_planes ? to[plane] = from[element] : to[element] = from[plane];
    }
}

}  // namespace

void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) {
  move(in, element_bytes, out, true, HWY_DYNAMIC_DISPATCH(shuffle2),
       HWY_DYNAMIC_DISPATCH(shuffle4));
}

void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                     std::span<std::byte> out) {
  move(in, element_bytes, out, false, HWY_DYNAMIC_DISPATCH(unshuffle2),
       HWY_DYNAMIC_DISPATCH(unshuffle4));
}

}  // namespace troupe
#endif  // HWY_ONCE
