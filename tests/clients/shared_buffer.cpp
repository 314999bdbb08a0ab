// Memory shared between processes as a program of any age uses it. Compiled only.
#include <utility>
#include <vector>

#include "lci/buffer.hpp"

int share_and_map();

namespace {

// Everything that the header has, once.
std::string use(lci::buffer whole) {
  std::string why_not;
  if (lci::gpu_available() && lci::gpu_available(why_not) && lci::gpu_count() > 0)
    whole = lci::buffer::create(4096, 0);
  lci::buffer part = whole.slice(0, 100);
  part.sync(lci::buffer_sync::before);
  part.sync(lci::buffer_sync::after);
  const std::string handle = part.export_handle();
  size_t offset = 0;
  if (part.is_gpu() && part.export_dma_buf(offset) < 0) return handle;
  part.revoke();
  std::vector<lci::buffer> all;
  all.push_back(std::move(part));
  lci::buffer_ring ring(std::move(whole), 4);
  size_t index = 0;
  if (ring.try_take(index)) ring.give_back();
  lci::buffer_pool pool(100, 2, lci::buffer::HOST);
  const lci::buffer block = pool.try_take();
  lci::buffer_copier copier(block.device());
  copier.wait(copier.start(block.data(), ring.data(index), block.size()));
  return handle + all.front().describe() + std::to_string(copier.ended() + pool.free_blocks());
}

}  // namespace

int share_and_map() {
  try {
    lci::buffer::serve();
    lci::buffer::keep_imports(2);
    char mine[10] = "";
    lci::buffer there = lci::buffer::import(use(lci::buffer::wrap(mine, sizeof(mine))));
    there.check();
    lci::buffer::stop_serving();
    return there && there.is_imported() && !there.is_gpu() ? static_cast<int>(there.size()) : 0;
  } catch (const lci::buffer_error& error) {
    return error.fault() == lci::buffer_fault::stale ? 1
                                                     : lci::get_buffer_fault_str(error.fault())[0];
  }
}
