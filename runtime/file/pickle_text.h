#pragma once
// The encodings of texts in pickles.

#include <optional>
#include <string>
#include <string_view>

namespace troupe::pickle_text {

/// The bytes of a Python 2 literal, quotes included: 'a\x00\n'. Nothing for anything else.
std::optional<std::string> from_literal(std::string_view literal);

/// Latin-1 with \uXXXX and \UXXXXXXXX (Python's raw-unicode-escape), as UTF-8.
std::optional<std::string> from_raw_unicode(std::string_view raw);

/// UTF-8 whose characters are all below 256, as one byte each.
std::optional<std::string> to_latin1(std::string_view utf8);

}  // namespace troupe::pickle_text
