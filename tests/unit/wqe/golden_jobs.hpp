// All 225 vectors as jobs with what must come of them. Callers: golden_jobs_test on the processor,
// tests/accelerator/wqe_test on a GPU. Threads: single.
// Always true: a vector is one job, but for a batch, whose posts are one each; a result that a
// vector does not name is not compared.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/device_code/wqe_jobs.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace lci::test {

struct golden_job {
  explicit golden_job(std::string of) : id(std::move(of)) {}
  std::string id;
  wqe_job job{};
  bytes before, after;  // the job's memory
  std::vector<std::optional<std::uint64_t>> expected;
  std::optional<std::uint64_t> known_wrong;  // what the first result must not be
  bool for_processors = false;               // a GPU may do what is refused here

  // Empty, or what is not as it must be.
  std::string difference(const wqe_job& done, const bytes& memory) const {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] && done.results[i] != *expected[i])
        return id + ": result " + std::to_string(i) + " is " + std::to_string(done.results[i]) +
               ", not " + std::to_string(*expected[i]);
    }
    if (known_wrong && done.results[0] == *known_wrong) return id + ": the published mistake";
    return memory == after ? "" : id + ": memory differs";
  }
};

// The number that lies in memory as these bytes.
inline std::uint64_t as_stored(const json& hex) {
  const bytes b = bytes_of(hex);
  std::uint64_t out = 0;
  std::memcpy(&out, b.data(), b.size());
  return out;
}
inline std::uint64_t code_of(wqe::status s) { return static_cast<std::uint64_t>(s); }

inline void put(bytes& to, std::size_t at, const bytes& what) {
  std::copy(what.begin(), what.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

inline golden_job send_job(const json& v) {
  golden_job g(v.at("id"));
  const json& e = v.at("expect");
  g.job.kind = job_kind::send;
  g.job.send = input_of(v);
  g.before = g.after = bytes(std::size_t{g.job.send.ring_blocks} * wqe::BLOCK_SIZE, 0xee);
  for (const json& piece : e.at("ring"))
    put(g.after, piece.at("offset"), bytes_of(piece.at("bytes")));
  g.expected = {0,
                number(e.at("ds")),
                number(e.at("num_bb")),
                number(e.at("next_index")),
                as_stored(e.at("doorbell")),
                as_stored(e.at("doorbell_synth")),
                as_stored(e.at("dbrec").get<std::string>().substr(8))};
  return g;
}

// The posts one by one, each in a ring of its own; the last one rings for all.
inline void add_batch(std::vector<golden_job>& to, const json& v,
                      const std::map<std::string, json>& by_name) {
  const std::size_t size = v.at("wqe_cnt").get<std::size_t>() * wqe::BLOCK_SIZE;
  for (const json& post : v.at("posts")) {
    golden_job g(v.at("id"));
    g.job.kind = job_kind::send;
    g.job.send = input_of(by_name.at(post.at("send_like")));
    g.job.send.request.signaled = post.at("signaled");
    g.job.send.index = number(post.at("index"));
    g.job.send.ring_blocks = v.at("wqe_cnt");
    g.before = g.after = bytes(size, 0xee);
    const bytes wqe = bytes_of(post.at("wqe"));
    for (std::size_t i = 0; i < wqe.size(); ++i)
      g.after[(g.job.send.index * wqe::BLOCK_SIZE + i) % size] = wqe[i];
    g.expected = {0, wqe.size() / 16};
    to.push_back(g);
  }
  const json& e = v.at("expect");
  to.back().expected = {0,
                        std::nullopt,
                        std::nullopt,
                        number(e.at("next_index")),
                        as_stored(e.at("doorbell")),
                        as_stored(e.at("doorbell_synth")),
                        as_stored(e.at("dbrec").get<std::string>().substr(8))};
}

inline golden_job receive_job(const json& v) {
  golden_job g(v.at("id"));
  g.job.kind = job_kind::receive;
  g.job.a = number(v.at("index"));
  g.job.count = v.at("rq_wqe_cnt");
  g.job.size = v.at("stride");
  for (const wqe::sge& e : entries_of(v.at("sge")))
    g.job.send.entries[g.job.send.request.entry_count++] = e;
  g.before = g.after = bytes(std::size_t{g.job.count} * g.job.size, 0);
  put(g.after, v.at("expect").at("offset"), bytes_of(v.at("expect").at("wqe")));
  g.expected = {0, as_stored(v.at("expect").at("dbrec").get<std::string>().substr(0, 8))};
  return g;
}

inline golden_job completion_job(const json& v) {
  golden_job g(v.at("id"));
  const json& e = v.at("expect");
  g.job.kind = job_kind::completion;
  g.job.a = number(v.at("ci"));
  g.job.count = v.at("cqe_cnt");
  g.job.size = v.at("cqe_size");
  g.before = bytes(std::size_t{g.job.count} * g.job.size, 0xff);
  put(g.before, e.at("slot").get<std::size_t>() * g.job.size, bytes_of(v.at("cqe")));
  g.after = g.before;
  if (!e.at("valid")) {
    g.expected = {code_of(wqe::status::nothing)};
    return g;
  }
  const auto named = [&](const char* name) -> std::optional<std::uint64_t> {
    if (!e.contains(name)) return std::nullopt;
    return e.at(name).is_boolean() ? std::uint64_t{e.at(name).get<bool>()} : number(e.at(name));
  };
  g.expected = {code_of(e.contains("syndrome") ? wqe::status::failed : wqe::status::ok),
                named("opcode"),
                named("format"),
                named("solicited"),
                named("qpn"),
                named("wqe_counter"),
                named("send_opcode"),
                named("byte_cnt"),
                named("imm"),
                named("src_qp"),
                named("srqn_uidx"),
                named("syndrome"),
                named("vendor_err"),
                named("wc_status"),
                as_stored(e.at("cq_dbrec"))};
  return g;
}

inline golden_job reject_job(const json& v) {
  golden_job g(v.at("id"));
  g.expected = {code_of(why_rejected(g.id))};
  g.before = g.after = bytes(64 * wqe::BLOCK_SIZE, 0xee);
  if (v.contains("cqe_size")) {
    g.job.kind = job_kind::completion;
    g.job.size = v.at("cqe_size");
    g.job.count = 4;
    return g;
  }
  send_input& in = g.job.send;
  wqe::send_request& r = in.request;
  g.job.kind = job_kind::send;
  r.op = opcode_named(v.value("op", "RDMA_WRITE"));
  r.qpn = static_cast<std::uint32_t>(number_or(v, "qpn", 0x123));
  r.raddr = number_or(v, "raddr", 0x1000);
  r.inline_length = v.value("inline_length", 0u);
  r.inline_is_gpu_memory = g.for_processors = v.contains("source");
  in.ring_blocks = v.value("wqe_cnt", 64u);
  in.limits = {v.value("max_inline", MOST_INLINE), wqe::DEFAULT_MAX_MESSAGE};
  if (r.inline_length == 0) r.entry_count = v.value("sge_count", 1u);
  for (std::uint32_t i = 0; i < r.entry_count; ++i)
    in.entries[i] = {1, number_or(v, "length", wqe::is_atomic(r.op) ? 8 : 64), 1};
  return g;
}

inline golden_job known_wrong_job(const json& v) {
  golden_job g(v.at("id"));
  const auto is = [&](job_kind kind, std::uint64_t right, std::uint64_t wrong) {
    g.job.kind = kind;
    g.expected = {right};
    g.known_wrong = wrong;
  };
  if (g.id == "unmasked-index") {
    is(job_kind::control_word, as_stored(v.at("right_dword0")), as_stored(v.at("wrong_dword0")));
    g.job.a = number(v.at("index"));
    g.job.b = number(v.at("opcode"));
  } else if (g.id == "24-bit-send-record") {
    is(job_kind::work_record, as_stored(v.at("right_dbrec_send")),
       as_stored(v.at("wrong_dbrec_send")));
    g.job.a = number(v.at("index")) + number(v.at("num_bb"));
  } else if (g.id == "remote-segment-in-send") {
    is(job_kind::size_of_send, number(v.at("right_ds")), number(v.at("wrong_ds")));
    g.job.send.request.op = wqe::opcode::send;
    g.job.send.request.entry_count = 1;
    g.job.send.entries[0] = {1, 64, 1};
  } else if (g.id == "send-inval-cqe-as-error") {
    is(job_kind::is_error, 0, 1);
    g.job.a = number(v.at("cqe_opcode"));
  } else {
    is(job_kind::entry_offset, number(v.at("right_offset")), number(v.at("wrong_offset")));
    g.job.size = wqe::LARGE_CQE_SIZE;
  }
  return g;
}

inline golden_job numbers_job(job_kind kind, const json& v) {
  golden_job g(v.at("id"));
  wqe_job& j = g.job;
  j.kind = kind;
  if (kind == job_kind::collapsed) {
    j.a = number(v.at("done")), j.b = number(v.at("posted"));
    j.c = number(v.at("wqe_counter")), j.d = number(v.at("num_bb"));
    g.expected = {number(v.at("expect").at("done"))};
  } else if (kind == job_kind::admission) {
    j.a = number(v.at("reserved_at")), j.b = number(v.at("num_bb"));
    j.c = number(v.at("done")), j.d = number(v.at("wqe_cnt"));
    g.expected = {v.at("expect").at("may_write").get<bool>()};
  } else {
    j.a = number(v.at("arm_sn")), j.b = v.at("solicited_only").get<bool>();
    j.c = number(v.at("ci")), j.d = number(v.at("cqn"));
    g.expected = {as_stored(v.at("expect").at("arm_dbrec")),
                  as_stored(v.at("expect").at("doorbell"))};
  }
  return g;
}

inline std::vector<golden_job> all_golden_jobs() {
  std::vector<golden_job> all;
  std::map<std::string, json> by_name;
  for (const json& v : vectors("send", 123)) {
    by_name[v.at("id")] = v;
    all.push_back(send_job(v));
  }
  for (const json& v : vectors("batch", 3)) add_batch(all, v, by_name);
  for (const json& v : vectors("recv", 10)) all.push_back(receive_job(v));
  for (const json& v : vectors("cqe", 50)) all.push_back(completion_job(v));
  for (const json& v : vectors("collapsed", 12)) all.push_back(numbers_job(job_kind::collapsed, v));
  for (const json& v : vectors("admission", 7)) all.push_back(numbers_job(job_kind::admission, v));
  for (const json& v : vectors("cq_arm", 3)) all.push_back(numbers_job(job_kind::arm, v));
  for (const json& v : vectors("reject", 12)) all.push_back(reject_job(v));
  for (const json& v : vectors("known_wrong", 5)) all.push_back(known_wrong_job(v));
  return all;
}

// How many vectors these are.
inline std::size_t vectors_of(const std::vector<golden_job>& jobs) {
  std::set<std::string> ids;
  for (const golden_job& g : jobs) ids.insert(g.id);
  return ids.size();
}

}  // namespace lci::test
