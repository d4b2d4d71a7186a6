#include <arpa/inet.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "grpc_stub.h"

namespace once {
namespace {

// "dns:///host:1", "ipv4:1.2.3.4:1", "[::1]:1", "host" → the host.
std::string HostOf(absl::string_view target) {
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  if (absl::ConsumePrefix(&target, "//")) {  // dns://authority/host
    const size_t slash = target.find('/');
    target = slash == absl::string_view::npos ? absl::string_view() : target.substr(slash + 1);
  }
  if (absl::ConsumePrefix(&target, "[")) return std::string(target.substr(0, target.find(']')));
  return std::string(target.substr(0, target.rfind(':')));
}

bool IsLoopbackHost(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

}  // namespace

bool IsLoopbackEndpoint(absl::string_view endpoint) {
  if (absl::StartsWith(endpoint, "unix:") || absl::StartsWith(endpoint, "unix-abstract:"))
    return true;
  // Several addresses in one endpoint: all of them count, so none is let through.
  if (absl::StrContains(endpoint, ",")) return false;
  return IsLoopbackHost(HostOf(endpoint));
}

namespace client_internal {
namespace {

// What the server's keepalive enforcement allows.
constexpr absl::Duration kMinKeepalive = absl::Seconds(10);

std::function<uint64_t()> MakeRandom() {
  struct State {
    absl::Mutex mutex;
    absl::BitGen generator ABSL_GUARDED_BY(mutex);
  };
  return [state = std::make_shared<State>()]() -> uint64_t {
    absl::MutexLock lock(&state->mutex);
    return absl::Uniform<uint64_t>(state->generator);
  };
}

void CheckPolicies(const ConnectionOptions& options, std::vector<std::string>& problems) {
  if (options.retry.attempt_timeout <= absl::ZeroDuration()) {
    problems.push_back("retry.attempt_timeout must be above 0");
  }
  if (options.retry.max_elapsed <= absl::ZeroDuration()) {
    problems.push_back("retry.max_elapsed must be above 0");
  }
  if (options.retry.max_attempts < 1) problems.push_back("retry.max_attempts must be at least 1");
  if (options.backoff.initial <= absl::ZeroDuration() ||
      options.backoff.max < options.backoff.initial) {
    problems.push_back("backoff needs 0 < initial <= max");
  }
  if (options.backoff.multiplier < 1) problems.push_back("backoff.multiplier must be at least 1");
  if (options.keepalive_time < kMinKeepalive) {
    problems.push_back(
        absl::StrCat("keepalive_time is ", absl::FormatDuration(options.keepalive_time),
                     "; the server allows a ping every ", absl::FormatDuration(kMinKeepalive)));
  }
}

}  // namespace

absl::Status CheckOptions(const ConnectionOptions& options) {
  std::vector<std::string> problems;
  if (options.endpoints.empty()) problems.push_back("endpoints is empty");
  for (const std::string& endpoint : options.endpoints) {
    if (endpoint.empty()) problems.push_back("an endpoint is empty");
    if (options.transport == Transport::kPlaintextLoopback && !IsLoopbackEndpoint(endpoint)) {
      problems.push_back(absl::StrCat("endpoint ", endpoint,
                                      " is not on this machine: it needs TLS, or kPlaintext to "
                                      "send the credential unencrypted"));
    }
  }
  if (!options.token.empty() && !options.token_file.empty()) {
    problems.push_back("token and token_file are both set");
  }
  const TlsOptions& tls = options.tls;
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    problems.push_back("tls.certificate_file and tls.key_file are needed together");
  }
  const bool any_tls = !tls.ca_file.empty() || !tls.certificate_file.empty() ||
                       !tls.key_file.empty() || !tls.server_name.empty();
  if (options.transport != Transport::kTls && any_tls) {
    problems.push_back("TLS files are given, but transport is not kTls");
  }
  CheckPolicies(options, problems);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("connection options: ", absl::StrJoin(problems, "; ")));
}

ConnectionOptions WithDefaults(ConnectionOptions options) {
  if (options.clock == nullptr) options.clock = MakeSystemClock();
  if (!options.random) options.random = MakeRandom();
  return options;
}

RetryContext ContextFor(const ConnectionOptions& connection, const CallOptions& call) {
  return {call.retry.value_or(connection.retry), call.backoff.value_or(connection.backoff),
          connection.clock, connection.random, call.traceparent};
}

}  // namespace client_internal
}  // namespace once
