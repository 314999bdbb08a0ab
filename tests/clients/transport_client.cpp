// Every call of lci/transport.hpp as C++11; compiled, and linked and run as a client of the
// library.
#include <lci/transport.hpp>
#include <lci/transport_await.hpp>

#include <cstdio>
#include <vector>

static int check(bool good, const char* what) {
  if (!good) std::fprintf(stderr, "transport_client: %s\n", what);
  return good ? 0 : 1;
}

static void move_both(lci::transport& a, lci::transport& b, const lci::transfer& until) {
  while (!until.is_done()) {
    a.process();
    b.process();
  }
}

int main() {
  std::string why;
  if (!lci::transport::supported(&why)) {
    std::printf("no transports: %s\n", why.c_str());
    return 77;
  }
  lci::transport_options options;
  options.spin_s = 0;
  lci::transport a(options), b;
  lci::transport::peer peer = b.connect(a.bind());
  while (!a.connected() || !b.connected()) {
    a.process();
    b.process();
  }
  std::vector<char> here(4096, 'x'), there(4096);
  lci::memory local(here.data(), here.size()), target(there.data(), there.size());
  lci::key_options rights;
  rights.valid_s = 3600;
  const lci::remote_buffer remote =
      lci::remote_buffer::parse(target.remote(rights).slice(0, 4096).to_string());
  int wrong = check(peer.is_valid() && peer.number() == 0 && peer.connected(), "peer");
  wrong += check(local.contains(here.data(), 10) && local.device() == -1, "memory");
  lci::transfer_options with_note;
  with_note.notify = true;
  with_note.tag = 5;
  lci::transport::batch two;
  two.write(local.view(0, 100), remote.slice(0, 100))
      .write(local.view(&here[100], 3996), remote.slice(100, 3996));
  const lci::transfer written = peer.submit(two, with_note);
  bool was_called = false;
  written.on_done([&](std::exception_ptr problem) { was_called = problem == nullptr; });
  std::future<void> future = written.future();
  move_both(a, b, written);
  future.get();
  lci::notification note;
  while (!a.wait_for_write(0, &note)) b.process();
  wrong += check(note.tag == 5 && note.count == 1 && was_called && there == here, "write");
  const lci::transfer read = b.read(local.view(), remote);
  move_both(a, b, read);
  read.get();
  const lci::transfer next = a.next_write();
  wrong += check(next.cancel() && !next.is_in_use(), "cancel");
  target.revoke();
  wrong += check(a.event_fd() >= 0 && a.accept().is_valid() && a.peers().size() == 1, "peers");
  wrong += check(!a.describe().empty() && peer.why_closed().empty(), "describe");
  peer.close();
  a.close();
  return wrong;
}
