#include "lci/mem/registration_ladder.hpp"

#include <cerrno>
#include <system_error>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::mem {
namespace {

constexpr std::size_t at(rung which) noexcept { return static_cast<std::size_t>(which); }
constexpr std::array<rung, RUNGS> ALL = {rung::data_direct, rung::dma_buf, rung::peer_memory};
constexpr const char* VARIABLE = "LCI_GPU_REGISTRATION";
using side = rung_failure::side;

// The result of one rung: a key, or a failure.
struct attempt {
  std::optional<rung_failure> failed;
  std::uint64_t key = 0;
  bool is_synchronous = true;
};

attempt refuse(rung which, side by, std::string text, int error = 0, bool is_final = false) {
  attempt out;
  out.failed = rung_failure{which, by, error, std::move(text), is_final};
  return out;
}

std::string device_text(const memory_place& place) {
  return std::string(place.domain->name) + ": ";
}

// Turns the network's answer into a result; the system's text for the error follows the network's.
attempt take(rung which, const std::string& network, registration_answer&& answer,
             bool is_synchronous) {
  if (answer.why_not.empty()) return {{}, answer.key, is_synchronous};
  std::string text = network + ": " + answer.why_not;
  if (answer.error != 0) {
    text += ": " + std::generic_category().message(answer.error) + " [" +
            std::to_string(answer.error) + "]";
  }
  return refuse(which, side::network, std::move(text), answer.error, answer.is_final);
}

// The descriptor is closed at the end of this function, whatever the network answers.
attempt try_export(rung which, const std::string& network, device_registrar& with,
                   const memory_place& place, void* address, std::size_t size) {
  if (place.domain->export_for_network == nullptr)
    return refuse(which, side::accelerator, device_text(place) + "has no dma-buf", 0, true);
  const bool is_direct = which == rung::data_direct;
  const network_export out = place.domain->export_for_network(address, size, is_direct);
  if (!out.why_not.empty()) {
    return refuse(which, side::accelerator, device_text(place) + out.why_not, out.error,
                  out.is_final);
  }
  return take(which, network,
              with.register_range({out.fd.get(), out.offset, size,
                                   reinterpret_cast<std::uintptr_t>(address), is_direct}),
              out.is_synchronous);
}

attempt try_pointer(const std::string& network, device_registrar& with, const memory_place& place,
                    void* address, std::size_t size) {
  constexpr rung which = rung::peer_memory;
  if (place.domain->ready_for_network == nullptr) {
    return refuse(which, side::accelerator, device_text(place) + "has no peer memory", 0, true);
  }
  network_pointer ready = place.domain->ready_for_network(address);
  if (!ready.why_not.empty()) {
    return refuse(which, side::accelerator, device_text(place) + ready.why_not, ready.error,
                  ready.is_final);
  }
  return take(which, network, with.register_pointer(address, size), ready.is_synchronous);
}

bool is_rung(std::string_view word, rung& out) noexcept {
  for (const rung one : ALL) {
    if (!base::env::same_word(word, name_of(one))) continue;
    out = one;
    return true;
  }
  return false;
}

[[noreturn]] void refuse_rules(std::string_view variable, std::string_view text) {
  throw argument_error(std::string(variable) + " is \"" + std::string(text) +
                       "\", but should be auto, or some of data_direct, dma_buf and peer_memory, "
                       "or some of them with ^ to leave those out");
}

}  // namespace

const char* name_of(rung which) noexcept {
  switch (which) {
    case rung::data_direct:
      return "data_direct";
    case rung::dma_buf:
      return "dma_buf";
    case rung::peer_memory:
      return "peer_memory";
  }
  return "?";
}

ladder_rules ladder_rules::parse(bool use_dmabuf, std::string_view variable,
                                 std::string_view text) {
  ladder_rules rules;
  std::array<bool, RUNGS> wanted{};
  bool leaves_out = false, is_auto = false;
  base::env::for_each_entry(text, ",", [&](std::string_view entry) {
    rung which{};
    const bool is_out = entry.front() == '^';
    if (base::env::same_word(entry, "auto"))
      is_auto = true;
    else if (!is_rung(entry.substr(is_out ? 1 : 0), which))
      refuse_rules(variable, text);
    else if (is_out)
      leaves_out = true, rules.left_out[at(which)] = std::string(variable) + " leaves it out";
    else
      rules.is_forced = wanted[at(which)] = true;
  });
  if (is_auto + leaves_out + rules.is_forced > 1) refuse_rules(variable, text);
  for (const rung one : ALL) {
    if (rules.is_forced && !wanted[at(one)])
      rules.left_out[at(one)] = std::string(variable) + " asks for others";
    if (!use_dmabuf && one != rung::peer_memory && rules.left_out[at(one)].empty())
      rules.left_out[at(one)] = "the attribute use_dmabuf is off";
  }
  return rules;
}

ladder_rules ladder_rules::from_environment(bool use_dmabuf) {
  return parse(use_dmabuf, VARIABLE, base::env::find(VARIABLE).value_or("auto"));
}

std::string device_registration::why_not() const {
  std::string all;
  for (const rung_failure& one : failed) {
    if (!all.empty()) all += "; ";
    all += std::string(name_of(one.which)) + ": " + one.text;
  }
  return all;
}

int device_registration::error() const noexcept {
  if (by) return 0;
  for (const rung_failure& one : failed)
    if (one.by == rung_failure::side::network && (one.error == ENOMEM || one.error == ENOSPC))
      return one.error;
  return EOPNOTSUPP;
}

std::optional<rung_failure> registration_ladder::known_failure(rung which, device_name device) {
  if (const std::string& why = rules_.left_out[at(which)]; !why.empty())
    return rung_failure{which, side::rules, 0, "not tried, " + why, true};
  const std::lock_guard lock(mutex_);
  return devices_[device].dead[at(which)];
}

void registration_ladder::remember(const rung_failure& what, device_name device) {
  const std::lock_guard lock(mutex_);
  devices_[device].dead[at(what.which)] = what;
}

device_registration registration_ladder::climb(device_registrar& with, const memory_place& place,
                                               void* address, std::size_t size) {
  const device_name device{place.domain, place.device};
  device_registration out;
  for (const rung which : ALL) {
    // Memory that is not handled is not even asked about: a driver was seen to crash.
    attempt one;
    if (!place.is_handled)
      one = refuse(which, side::accelerator, device_text(place) + place.domain->refusal(address));
    else if (auto known = known_failure(which, device))
      one.failed = std::move(known);
    else if (which == rung::peer_memory)
      one = try_pointer(network_, with, place, address, size);
    else
      one = try_export(which, network_, with, place, address, size);
    if (!one.failed) {
      out.by = which;
      out.key = one.key;
      if (!one.is_synchronous) say_unsynchronous(place, address);
      break;
    }
    if (one.failed->is_final && one.failed->by != side::rules) remember(*one.failed, device);
    out.failed.push_back(std::move(*one.failed));
  }
  say(out, place, address);
  if (!out.by && rules_.is_forced) {
    throw backend_error(std::to_string(size) + " bytes of " + place.domain->describe(address) +
                        " could not be registered as " + VARIABLE + " asks: " + out.why_not());
  }
  return out;
}

// Logs once per device and rung: a line per buffer would be one per message.
void registration_ladder::say(const device_registration& what, const memory_place& place,
                              const void* address) {
  {
    const std::lock_guard lock(mutex_);
    bool& was_said =
        devices_[{place.domain, place.device}].was_said[what.by ? at(*what.by) : RUNGS];
    if (std::exchange(was_said, true)) return;
  }
  const std::string reasons = what.failed.empty() ? "" : " (" + what.why_not() + ")";
  base::log::info(
      "mem", "%s registers %s by %s%s", network_.c_str(), place.domain->describe(address).c_str(),
      what.by ? name_of(*what.by) : "no rung: its data goes through host memory", reasons.c_str());
}

void registration_ladder::say_unsynchronous(const memory_place& place, const void* address) {
  {
    const std::lock_guard lock(mutex_);
    bool& was_said = devices_[{place.domain, place.device}].was_unsynchronous_said;
    if (std::exchange(was_said, true)) return;
  }
  base::log::info("mem",
                  "%s: synchronous copies may return before %s sees their bytes; wait for the "
                  "stream before a post",
                  place.domain->describe(address).c_str(), network_.c_str());
}

}  // namespace lci::mem
