#pragma once
// Small helpers for what people read and write.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// The fewest slips that make one text of the other: a character inserted, left out or replaced, or
/// two neighbours swapped (F. J. Damerau, "A technique for computer detection and correction of
/// spelling errors", CACM 1964; no character takes part in two swaps).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `word`; the first of equals, empty if there is
/// no candidate. For messages about unknown names.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// What was probably meant by `word`: the candidate that begins with it, or that it begins like,
/// that ends with it, or the nearest one if no more than a third of its characters differ; empty if
/// it is none of them.
std::string meant(std::string_view word, std::span<const std::string_view> candidates);

/// A remedy for an unknown word: "did you mean train? The verbs are …", or `rest` alone where
/// nothing near was meant. `rest` begins with a small letter, or is empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string rest = {});

/// Whether a character is one of those that move a terminal's cursor or end a line: ASCII's control
/// characters, which no part of a script's line or of a file's text may have as it is.
bool is_control(unsigned char character);

/// The first names of a list, separated by commas, and how many follow: "a, b and 7 more".
std::string listed(std::span<const std::string> names, std::size_t at_most = 5);

/// "1 core", "2 cores", "2 processes".
std::string counted(std::int64_t count, std::string_view thing);

/// A time that was waited, for messages: "8 s", "2.5 s", "300 ms".
std::string in_words(std::chrono::milliseconds time);

/// The first line in which two texts differ, as each of them has it: empty where a text has ended,
/// and both where they are the same.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b);

}  // namespace troupe
