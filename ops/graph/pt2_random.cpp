// Dropout of elements and of channels, and masks that a model draws itself, as stochastic depth
// does: x * empty([batch, 1, 1, 1]).bernoulli_(keep).div_(keep).

#include <fmt/format.h>

#include <cmath>

#include "ops/graph/compositions.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"

namespace troupe::graph {
namespace {

void dropout(const Pt2Node& node) {
  const ValueId x = node.value(node.has("self") ? "self" : "input");  // dropout_ has "self"
  const double probability = node.number("p", 0.5);
  if (probability == 0.0) return node.give(x);
  if (!node.boolean("train", true)) throw LacksOperator{evaluation_mode, torch_export_line};
  if (!(probability > 0.0 && probability < 1.0))
    throw LacksOperator{fmt::format("its probability is {}", probability)};
  const bool channels = node.target() == "feature_dropout.default" && node.shape(x).size() > 2;
  node.give(node.add(Dropout{probability, channels ? 2 : 0}, {x}));
}

void give_mask(const Pt2Node& node, Pt2Mask mask) {
  auto& masks = node.context().masks;
  const ValueId id{-2 - static_cast<int>(masks.size())};
  masks[id] = std::move(mask);
  node.give(id);
}

Sizes shape_of_self(const Pt2Node& node) {
  const ValueId self = node.value_or_mask("self");
  const auto mask = node.context().masks.find(self);
  return mask == node.context().masks.end() ? node.shape(self) : mask->second.shape;
}

void empty(const Pt2Node& node) { give_mask(node, {.shape = node.sizes("size")}); }
void empty_like(const Pt2Node& node) { give_mask(node, {.shape = shape_of_self(node)}); }

void bernoulli(const Pt2Node& node) {
  const double keep = node.number("p", 0.5);
  if (!(keep > 0.0 && keep <= 1.0))
    throw LacksOperator{fmt::format("it draws 1 with the probability {}", keep)};
  give_mask(node, {.shape = shape_of_self(node), .drawn = true, .keep = keep});
}

/// 1 - keep as the decimal that it was: 0.2, not 1 - 0.8.
double probability_of(double keep) { return std::round((1.0 - keep) * 1e12) / 1e12; }

/// The mask that an argument is, if it is one.
const Pt2Mask* mask_in(const Pt2Node& node, std::string_view name) {
  if (!node.is_tensor(name)) return nullptr;
  const auto& masks = node.context().masks;
  const auto found = masks.find(node.value_or_mask(name));
  return found == masks.end() ? nullptr : &found->second;
}

}  // namespace

bool give_masked(const Pt2Node& node, ArithmeticOperation operation) {
  const Pt2Mask *self = mask_in(node, "self"), *other = mask_in(node, "other");
  if (self && operation == ArithmeticOperation::divide && node.has("other") &&
      !node.is_tensor("other")) {
    if (!self->drawn || self->scaled || node.number("other") != self->keep) return false;
    Pt2Mask scaled = *self;
    scaled.scaled = true;
    return give_mask(node, std::move(scaled)), true;
  }
  if (operation != ArithmeticOperation::multiply || (self != nullptr) == (other != nullptr))
    return false;
  const Pt2Mask mask = self ? *self : *other;
  if (!mask.drawn || !node.is_tensor("self") || !node.is_tensor("other")) return false;
  ValueId x = node.value(self ? "other" : "self");
  const auto drop = dropout_of_mask(mask.shape, node.shape(x), probability_of(mask.keep));
  if (!drop)
    throw LacksOperator{fmt::format("it multiplies {} by random numbers {}",
                                    to_string(node.shape(x)), to_string(mask.shape))};
  if (mask.keep < 1.0) x = node.add(*drop, {x});
  if (!mask.scaled) x = node.add(Affine{mask.keep, 0.0}, {x});
  return node.give(x), true;
}

void add_random(Pt2Handlers& handlers) {
  handlers["dropout.default"] = handlers["feature_dropout.default"] = dropout;
  handlers["empty.memory_format"] = handlers["new_empty.default"] = empty;
  handlers["empty_like.default"] = empty_like;
  handlers["bernoulli.float"] = handlers["bernoulli.p"] = bernoulli;
}

}  // namespace troupe::graph
