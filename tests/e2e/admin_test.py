"""The listener for administration: what it serves, what the public one no longer does, and what no web page can send."""
import json
import pathlib
import subprocess
import tempfile

from deployment import BINARY, deployment, get_json, request, run

JSON = {"Content-Type": "application/json"}


def paths_of_administration_are_on_their_own_listener():
    with deployment(workers=1) as (gateway, workers):
        for path in ("/admin/status", "/admin/decisions", "/admin/router_mode", "/metrics"):
            assert request(gateway.url + path)[0] == 404, path
            assert request(gateway.admin + path)[0] == 200, path
        for path in ("/debug/kv_blocks", "/reset_prefix_cache"):
            assert request(workers[0].url + path)[0] == 404, path
        assert request(workers[0].url + "/reset_prefix_cache", {}, "POST")[0] == 404
        assert get_json(workers[0].admin + "/debug/kv_blocks")["block_size"] == 32
        # As of vLLM: a gateway reads them there.
        assert request(workers[0].url + "/metrics")[0] == 200
        assert request(gateway.url + "/health")[0] == 200 == request(gateway.admin + "/health")[0]
        for url in (gateway.admin, workers[0].admin):
            assert request(url + "/v1/models")[0] == 404


def no_web_page_changes_anything():
    with deployment(workers=1) as (gateway, workers):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        mode = {"mode": "round_robin"}
        for headers in (form, {"Content-Type": "text/plain"}):
            status, _, text = request(gateway.admin + "/admin/router_mode", mode, "PUT", headers=headers)
            assert status == 415 and "application/json" in json.loads(text)["error"]["message"], (status, text)
        assert request(workers[0].admin + "/reset_prefix_cache", {}, "POST", headers=form)[0] == 415
        for origin in ("https://evil.example", "null"):
            for url in (gateway.admin + "/admin/status", gateway.url + "/v1/models", workers[0].url + "/v1/models"):
                status, headers, _ = request(url, headers={"Origin": origin})
                assert status == 403 and "Access-Control-Allow-Origin" not in headers, (url, status)
            assert request(gateway.admin + "/admin/router_mode", mode, "PUT", headers={"Origin": origin})[0] == 403
        assert request(gateway.admin + "/admin/status", headers={"Host": "rebound.example"})[0] == 421
        assert get_json(gateway.admin + "/admin/router_mode") == {"mode": "kv"}
        assert request(gateway.admin + "/admin/router_mode", mode, "PUT", headers={"X-Kvist-Request": "1", **form})[0] == 200
        assert get_json(gateway.admin + "/admin/router_mode") == mode


def refusals_of_settings_say_what_is_wrong():
    settings = {
        "http: {port: 9000}\n  admin: {port: 9000}": "administration needs a listener of its own",
        "cors: {origins: [chat.example]}": "expected an origin as browsers write it, like https://chat.example",
        "cors: {origin: x}": "origin",
    }
    with tempfile.TemporaryDirectory() as folder:
        for text, wanted in settings.items():
            file = pathlib.Path(folder) / "gateway.yaml"
            file.write_text(f"gateway:\n  {text}\n  workers: [{{url: 'http://127.0.0.1:1'}}]\n")
            done = subprocess.run([BINARY, "gateway", "-f", file], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and wanted in done.stderr, (text, done.stderr)


if __name__ == "__main__":
    run([paths_of_administration_are_on_their_own_listener, no_web_page_changes_anything, refusals_of_settings_say_what_is_wrong])
