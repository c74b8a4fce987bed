// The admin endpoints: setting the routing mode at run time; the decisions and the gateway's state as JSON.
#pragma once

#include <string_view>

#include "kvist/gateway/served_models.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

// Threads: the loop that routes, which owns the parts.

/// The model that an operator means. An empty name will do if the gateway serves one model only. Errors:
/// kInvalidArgument, kNotFound; the message names the models that there are.
[[nodiscard]] Result<ServedModel*> model_meant(const ServedModels& models, std::string_view name);

/// GET /admin/router_mode?model=NAME: {"model":"m","mode":"kv"}. If the settings have a list of models, the answer
/// without a name is {"models":[...]} with one such element for each; if they have none, it is {"mode":"kv"}.
[[nodiscard]] net::HttpResponse get_router_mode(const SharedParts& shared, const ServedModels& models,
                                                const net::HttpRequest& request);
/// PUT or POST /admin/router_mode with {"model":"m","mode":"round_robin"}: the mode takes effect with the next request.
/// Index and loads are kept.
[[nodiscard]] net::HttpResponse set_router_mode(const SharedParts& shared, const ServedModels& models,
                                                const net::HttpRequest& request);
/// GET /admin/decisions?limit=N&request=ID&model=NAME: recent decisions, newest first (docs/formats/decisions.md), of
/// one model: the one that is named, or that has the request. The answer ends after 1 MiB; then "more" is true.
[[nodiscard]] net::HttpResponse get_decisions(const ServedModels& models, const net::HttpRequest& request);
/// GET /admin/status: an object for the model or, if the settings have a list of models, {"in_flight","models"} with
/// one such object for each.
[[nodiscard]] net::HttpResponse get_status(const SharedParts& shared, const ServedModels& models,
                                           const ServedModels::Reports& reports);

}  // namespace kvist::gateway
