"""Envoy with an endpoint picker, set up as the Gateway API Inference Extension asks for it, and kvist epp as that picker."""
import json

import deployment
import fronts
import peer

CONFIG = """admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
    - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: http
                preserve_external_request_id: true
                http_filters:
                  - name: envoy.filters.http.ext_proc
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
                      grpc_service: {{envoy_grpc: {{cluster_name: picker}}}}
                      failure_mode_allow: {allow}
                      message_timeout: 10s
                      response_attributes: [response.code_details]
                      metadata_options:
                        forwarding_namespaces: {{untyped: [envoy.lb, envoy.lb.subset_hint]}}
                        receiving_namespaces: {{untyped: [envoy.lb]}}
                      processing_mode: {{request_header_mode: SEND, request_body_mode: {request_mode}, request_trailer_mode: {trailers},
                                        response_header_mode: SEND, response_body_mode: {response_mode}, response_trailer_mode: {answer_trailers}}}
                  - name: envoy.filters.http.router
                    typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {{prefix: "/"}}
                          route:
                            cluster: workers
                            timeout: 300s
                            retry_policy: {{retry_on: "connect-failure,refused-stream,reset-before-request", num_retries: 2}}
  clusters:
    - name: picker
      type: STATIC
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {{http2_protocol_options: {{}}}}
      circuit_breakers: {{thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192}}]}}
      health_checks: [{{timeout: 1s, interval: 1s, no_traffic_interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {{}}}}]
      common_lb_config: {{healthy_panic_threshold: {{value: 0}}}}
      load_assignment:
        cluster_name: picker
        endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {picker}}}}}}}}}]}}]
    - name: workers
      type: STATIC
      circuit_breakers: {{thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192, max_retries: 100}}]}}
      load_balancing_policy:
        policies:
          - typed_extension_config:
              name: envoy.load_balancing_policies.override_host
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost
                override_host_sources:
                  - metadata: {{key: envoy.lb, path: [{{key: x-gateway-destination-endpoint}}]}}
                selected_host_key: {{key: envoy.lb, path: [{{key: x-gateway-destination-endpoint-served}}]}}
                fallback_policy:
                  policies:
                    - typed_extension_config:
                        name: envoy.load_balancing_policies.round_robin
                        typed_config: {{"@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin}}
      load_assignment:
        cluster_name: workers
        endpoints:
          - lb_endpoints:
{ends}"""


class Picker(fronts.Kvist):
    """kvist epp; its url is that of its administration. `settings`: further lines of its file."""

    def __init__(self, folder, workers, model, block_size, mode="kv", settings=""):
        super().__init__("kvist epp", folder, workers, model, block_size, mode)
        self.settings = settings
        self.admin_port = peer.free_port()
        self.url = f"http://127.0.0.1:{self.admin_port}"

    def command(self):
        _, _, option, path = super().command()
        text = path.read_text().replace("admin: {port: 0}", f"admin: {{port: {self.admin_port}}}").replace("  workers:\n", self.settings + "  workers:\n", 1)
        return [deployment.BINARY, "epp", option, self.write("epp.yaml", text)]

    def is_ready(self):
        return all(worker["healthy"] for worker in deployment.get_json(self.url + "/admin/status")["workers"])


class EnvoyWithPicker(fronts.Front):
    """Envoy that asks a picker. `buffered`: the body is sent as a whole instead of to and fro."""

    def __init__(self, folder, workers, model, block_size, picker_port, allow=True, buffered=False):
        super().__init__("envoy + kvist epp", folder, workers, model, block_size)
        self.picker_port, self.allow, self.buffered, self.admin_port = picker_port, allow, buffered, peer.free_port()

    def config(self):
        ends = "".join(f"              - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {url.rsplit(':', 1)[1]}}}}}}}\n"
                       for url in self.worker_urls())
        modes = ({"request_mode": "BUFFERED", "response_mode": "STREAMED", "trailers": "SKIP", "answer_trailers": "SKIP"} if self.buffered else
                 {"request_mode": "FULL_DUPLEX_STREAMED", "response_mode": "FULL_DUPLEX_STREAMED", "trailers": "SEND", "answer_trailers": "SEND"})
        return CONFIG.format(port=self.port, admin=self.admin_port, picker=self.picker_port, allow=str(self.allow).lower(), ends=ends, **modes)

    def command(self):
        return [peer.program("envoy"), "-c", self.write(f"envoy-{self.port}.yaml", self.config()), "--base-id", self.port, "--log-level", "warn", "--concurrency", 2]

    def sees_picker(self):
        """Whether Envoy's health check finds the picker serving."""
        clusters = json.loads(deployment.request(f"http://127.0.0.1:{self.admin_port}/clusters?format=json")[2])
        [host] = next(c for c in clusters["cluster_statuses"] if c["name"] == "picker")["host_statuses"]
        return not host["health_status"].get("failed_active_health_check")

    def stats(self):
        """Envoy's counters of the filter and of the workers."""
        found = json.loads(deployment.request(f"http://127.0.0.1:{self.admin_port}/stats?format=json&filter=ext_proc|cluster.workers.upstream_rq")[2])
        return {stat["name"]: stat["value"] for stat in found["stats"] if "value" in stat}
