// What the rest of lci knows of this backend. Callers: providers.cpp. Threads: any.
#include "lci/net/provider.hpp"

#include "backends/ofi/fabric.hpp"
#include "backends/ofi/select.hpp"

namespace lci::ofi {

const net::provider PROVIDER{"ofi", attr_backend_t::ofi, &probe, &net::open_as<fabric>, &report};

}  // namespace lci::ofi
