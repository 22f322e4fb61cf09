#pragma once
// Helpers for text that users read and write.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// The edit distance: the smallest number of edits that turn one text into the other. An edit
/// inserts, removes or replaces a character, or swaps two neighbours (F. J. Damerau, "A technique
/// for computer detection and correction of spelling errors", CACM 1964; no character takes part in
/// two swaps).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `word`, and the first of several with the same
/// distance; empty without candidates. For messages about unknown names.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// The candidate that `word` probably means: one that differs in capitals only, that begins with
/// it, with which it begins, that ends with it, or that it abbreviates ("h5" of hdf5); else the
/// nearest one if at most a third of its characters differ. Empty if there is none.
std::string meant(std::string_view word, std::span<const std::string_view> candidates);

/// One of `others` that a dotted name, such as "fc.weight", probably has elsewhere: what is meant;
/// what the name ends with ("backbone.fc.weight": "fc.weight"); or the only one that ends as it
/// does ("head.weight": "classifier.weight"), if no other name of `own`, those of its own side
/// without a partner, ends so too. Empty if there is none.
std::string similar_name(std::string_view name, std::span<const std::string_view> others,
                         std::span<const std::string_view> own = {});

/// A remedy for an unknown word: "did you mean train? The verbs are …", or `rest` alone if no
/// candidate is near. `rest` begins with a small letter, or is empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string rest = {});

/// Whether a character is an ASCII control character. These move a terminal's cursor or end a line,
/// so no line of a script and no text of a file may contain one unescaped.
bool is_control(unsigned char character);

/// The beginning of a text from a file, at most so many bytes, for messages and tables. Control
/// characters other than those of `kept` become "?", also U+0080 to U+009F, and so does each byte
/// that is no part of UTF-8.
std::string printable(std::string_view text, std::size_t longest = 100, std::string_view kept = {});

/// The first names of a list, separated by commas, and the number of the rest if it is not one: "a,
/// b and 7 more".
std::string listed(std::span<const std::string> names, std::size_t at_most = 5);

/// Increasing numbers, with consecutive numbers as a range: "0-3", "0-1 4".
std::string ranges(std::span<const int> numbers);

/// "1 core", "2 cores", "2 processes".
std::string counted(std::int64_t count, std::string_view thing);

/// A duration for messages: "8 s", "2.5 s", "300 ms".
std::string in_words(std::chrono::milliseconds time);

/// The first line in which two texts differ, from each of them. A line is empty if its text has
/// ended; both are empty if the texts are equal.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b);

}  // namespace troupe
