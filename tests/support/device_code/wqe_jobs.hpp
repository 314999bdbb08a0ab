// One vector as a job that a processor or a GPU does: plain data in, numbers and bytes out.
// Callers: tests/unit/wqe on the processor, tests/accelerator/wqe_test on a GPU. Threads: each job
// is one thread's. Always true: do_job() is the same code on both sides, and touches nothing but
// the job's memory.
#pragma once

#include "lci/wqe/progress.hpp"
#include "tests/support/device_code/wqe_inputs.hpp"

namespace lci::test {

enum class job_kind : std::uint32_t {
  send,
  receive,
  completion,
  collapsed,
  admission,
  arm,
  control_word,
  work_record,
  size_of_send,
  is_error,
  entry_offset,
};

struct wqe_job {
  static constexpr int RESULTS = 16;
  job_kind kind;
  send_input send;            // and the entries of a receive
  unsigned char* memory;      // the ring
  std::uint32_t size, count;  // stride or entry size; entries
  std::uint64_t a, b, c, d;
  std::uint64_t results[RESULTS];
};

LCI_ANYWHERE inline void do_completion(wqe_job& j) {
  std::uint32_t record[2] = {0, 0};
  const wqe::completion_queue cq{j.memory, j.count, j.size, record};
  wqe::completion c;
  const wqe::status checked = wqe::check(cq);
  const wqe::status s = checked == wqe::status::ok ? wqe::poll(cq, j.a, &c) : checked;
  if (s == wqe::status::ok || s == wqe::status::failed) wqe::give_back(cq, j.a + 1);
  const std::uint64_t found[] = {static_cast<std::uint64_t>(s),
                                 static_cast<std::uint64_t>(c.kind),
                                 c.format,
                                 c.solicited,
                                 c.qpn,
                                 c.wqe_counter,
                                 c.send_opcode,
                                 c.byte_count,
                                 c.imm,
                                 c.source_qp,
                                 c.srqn,
                                 static_cast<std::uint64_t>(c.error),
                                 c.vendor_error,
                                 static_cast<std::uint64_t>(wqe::wc_status_of(c.error)),
                                 record[0]};
  for (int i = 0; i < 15; ++i) j.results[i] = found[i];
}

LCI_ANYWHERE inline void do_send(wqe_job& j) {
  wqe::written_wqe out;
  const wqe::status s = wqe::write_send_wqe({j.memory, j.send.ring_blocks}, j.send.index,
                                            request_of(j.send), j.send.limits, &out);
  const std::uint64_t found[] = {static_cast<std::uint64_t>(s),
                                 out.octowords,
                                 out.blocks,
                                 out.next_index,
                                 out.doorbell,
                                 wqe::synthesized_doorbell(out.next_index, j.send.request.qpn),
                                 wqe::work_record(out.next_index)};
  for (int i = 0; i < 7; ++i) j.results[i] = found[i];
}

LCI_ANYWHERE inline void do_job(wqe_job& j) {
  std::uint32_t record[2] = {0, 0};
  switch (j.kind) {
    case job_kind::send:
      return do_send(j);
    case job_kind::completion:
      return do_completion(j);
    case job_kind::receive:
      j.results[0] = static_cast<std::uint64_t>(wqe::write_recv_wqe(
          {j.memory, j.count, j.size}, j.a, j.send.entries, j.send.request.entry_count));
      wqe::post_receives(record, j.a + 1);
      j.results[1] = record[0];
      return;
    case job_kind::collapsed:
      j.results[0] = wqe::collapsed_progress(j.a, j.b, static_cast<std::uint16_t>(j.c),
                                             static_cast<std::uint32_t>(j.d));
      return;
    case job_kind::admission:
      j.results[0] = wqe::may_write(j.a, static_cast<std::uint32_t>(j.b), j.c,
                                    static_cast<std::uint32_t>(j.d));
      return;
    case job_kind::arm: {
      const wqe::arm_request r =
          wqe::arm(static_cast<std::uint32_t>(j.a), j.b != 0, j.c, static_cast<std::uint32_t>(j.d));
      j.results[0] = r.record;
      j.results[1] = r.doorbell;
      return;
    }
    case job_kind::control_word:
      j.results[0] =
          wqe::control_segment(0, j.a, static_cast<wqe::opcode>(j.b), 0, 3, 0, 0).word[0];
      return;
    case job_kind::work_record:
      j.results[0] = wqe::work_record(j.a);
      return;
    case job_kind::size_of_send:
      j.results[0] = wqe::octowords_of(request_of(j.send));
      return;
    case job_kind::is_error:
      j.results[0] = wqe::is_error(static_cast<wqe::cqe_opcode>(j.a));
      return;
    case job_kind::entry_offset: {
      std::uint32_t entry[wqe::LARGE_CQE_SIZE / 4];
      const std::uint32_t* const words = wqe::words_of({entry, 1, j.size, nullptr}, 0);
      j.results[0] = static_cast<std::uint64_t>(words + wqe::CQE_BYTES - entry) * 4;
      return;
    }
  }
}

// The parameter of both kernels. Random ones are made on the GPU as well.
struct wqe_task {
  wqe_job* jobs;
  send_output* outputs;
  std::uint64_t seed, first, count;
};

}  // namespace lci::test
