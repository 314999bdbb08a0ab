// docs/states.md is printed from the tables, so it cannot lie. LCI_UPDATE_DOCS=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lci/net/peer_table.hpp"
#include "lci/proto/gpu/preposted_states.hpp"
#include "lci/proto/gpu/staged_states.hpp"
#include "lci/proto/host/rendezvous.hpp"

namespace proto = lci::proto;

namespace {

template <class Table>
void print(std::ostream& out, const char* title, const Table& table) {
  out << "## " << title << "\n\n| state | event | next state | what is done |\n|---|---|---|---|\n";
  for (const auto& row : table)
    out << "| " << name_of(row.from) << " | " << name_of(row.on) << " | " << name_of(row.to)
        << " | " << row.says << " |\n";
  out << "\n";
}

std::string document() {
  std::ostringstream out;
  out << "# Protocol states {#states}\n"
         "\n"
         "Protocols of more than two steps are tables of {state, event, next state, action}. The "
         "code executes the tables, and\n"
         "this page is printed from them. The compiler rejects a table with an unreachable state, "
         "a state without an exit, or a\n"
         "missing event (`lci/base/state_table.hpp`). Eager protocols are two functions each and "
         "need no table.\n"
         "\n"
         "A rendezvous carries a message that is too large to be sent eagerly. The sender "
         "announces it (RTS), the receiver\n"
         "answers where to write it (RTR), and the sender writes the data there and reports the "
         "end (FIN, or immediate data that\n"
         "travels with the last write).\n"
         "\n"
         "A rank has one state in each runtime (`lci/net/peer_table.hpp`). Reports of networks, "
         "devices and the bootstrap change\n"
         "it; everything else reads it. No state follows a failure.\n"
         "\n";
  print(out, "Rendezvous, sender", proto::SEND_TABLE);
  print(out, "Rendezvous, receiver", proto::RECV_TABLE);
  out << "A staged transfer brings GPU memory to or from a peer through slots in host memory. The "
         "receiver lends slots. The sender\n"
         "fills them in order and announces each piece. The receiver empties each slot and "
         "returns it (credit). After a copy or a\n"
         "failure, the event `quiet` or `last` is raised if no copy of the transfer is under way "
         "(`lci/proto/gpu/staged.hpp`).\n"
         "\n";
  print(out, "Staged transfer, sender", proto::gpu::STAGED_SEND);
  print(out, "Staged transfer, receiver", proto::gpu::STAGED_RECV);
  out << "A sender knows the pre-posted receives of its peer. It may claim one through a word in "
         "shared memory and then write at\n"
         "once. The record of the receive stays in the matching engine until a claim arrives or a "
         "message of the same key removes it\n"
         "(`lci/proto/gpu/preposted_receives.hpp`).\n"
         "\n";
  print(out, "Pre-posted receive", proto::gpu::PREPOSTED);
  print(out, "Ranks", lci::net::PEER_TABLE);
  return out.str();
}

}  // namespace

TEST(states_doc, page__is_what_the_tables_say) {
  const std::string path = std::string(LCI_SOURCE_DIR) + "/docs/states.md";
  if (std::getenv("LCI_UPDATE_DOCS") != nullptr) std::ofstream(path) << document();
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), document()) << "run this test with LCI_UPDATE_DOCS=1";
}

TEST(rendezvous_tables, every_row__says_what_it_does) {
  for (const auto& row : proto::SEND_TABLE) EXPECT_NE(std::string(row.says), "");
  for (const auto& row : proto::RECV_TABLE) EXPECT_NE(std::string(row.says), "");
}
