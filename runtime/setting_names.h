#pragma once
// How errors of the library name settings, and how a program words them.

#include <functional>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace troupe {

/// What the user of a program calls a setting of the library: "train.batch_size" for `batch_size`.
/// Empty for one that the program has no name for.
using SettingNames = std::function<std::string(std::string_view setting)>;

/// The library names settings in messages and remedies as back-quoted words, which are members of
/// its options structs: "lower `batch_size`". This replaces each by the program's own name for it;
/// one without a name keeps its back quotes. The `troupe` command passes the keys of its options
/// file and its flags; another program may pass its own names, or print errors unchanged.
Error with_setting_names(const Error& error, const SettingNames& names);

}  // namespace troupe
