#pragma once
// One HTTP request for a file, by libcurl.

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "apps/fetch/part_file.h"

namespace troupe {

struct TransferOptions {
  /// A server that takes longer to connect, or sends less than 1 kB/s for so long, has failed.
  std::chrono::seconds timeout{30};
  std::stop_token stop = {};
  /// Called several times a second with the bytes of the file that are there.
  std::function<void(std::uint64_t have)> progress = {};
};

struct Transfer {
  enum class End : std::uint8_t {
    complete,     ///< the file has its size; its content is not checked
    broken_off,   ///< the connection ended early: another request may resume
    bad_range,    ///< the server does not resume this file: it has to begin anew
    refused,      ///< an answer that is not the file
    unreachable,  ///< no connection
    stopped,      ///< by TransferOptions::stop
  };
  End end = End::complete;
  std::string reason;  ///< of a failure
};

/// Requests the rest of a file of `bytes` bytes, of which `part` has the first ones; begins anew if
/// the server sends all of it. Follows redirections to http and https only, verifies certificates,
/// obeys the proxies of the environment (https_proxy, no_proxy …), and never stores more than
/// `bytes` bytes. Throws Error{io} for errors of the disk.
Transfer transfer(const std::string& url, PartFile& part, std::uint64_t bytes,
                  const TransferOptions& options);

}  // namespace troupe
