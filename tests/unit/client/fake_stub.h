// A server in miniature behind the stub interface, with the network's tricks: it can do what was
// asked and then say that it could not be reached.
//
// It knows one operation at a time and just enough of the rules: one claim, one receipt, repeats of
// the same attempt answered alike.
#ifndef ONCE_TESTS_UNIT_CLIENT_FAKE_STUB_H_
#define ONCE_TESTS_UNIT_CLIENT_FAKE_STUB_H_

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert.h"
#include "stub.h"

namespace once::testing_support {

// What happens to one sending.
struct Mishap {
  enum class When { kBefore, kAfter } when = When::kBefore;
  absl::Status status;
};

class FakeStub : public client_internal::Stub {
 public:
  using RpcCall = client_internal::RpcCall;

  static Mishap Lost() { return {Mishap::When::kAfter, absl::UnavailableError("reply lost")}; }
  static Mishap Refused() { return {Mishap::When::kBefore, absl::UnavailableError("refused")}; }

  // Applied to the next sendings in order, whatever they are.
  std::deque<Mishap> mishaps;

  std::vector<RpcCall> calls;
  std::vector<v1::BeginRequest> begins;
  std::vector<v1::CompleteRequest> completes;
  std::vector<v1::AbandonRequest> abandons;

  absl::StatusOr<v1::BeginResponse> Begin(const RpcCall& call,
                                          const v1::BeginRequest& request) override {
    begins.push_back(request);
    return Send<v1::BeginResponse>(call, [&] {
      v1::BeginResponse response;
      if (receipt_.has_value()) {
        *response.mutable_completed()->mutable_receipt() = *receipt_;
        response.mutable_completed()->set_replayed(true);
        return response;
      }
      if (holder_.empty()) {
        holder_ = request.attempt_id();
        ++fence_;
      }
      if (holder_ != request.attempt_id()) {
        response.mutable_in_progress()->set_consumer("other");
        return response;
      }
      auto* claim = response.mutable_granted()->mutable_claim();
      claim->set_attempt_id(holder_);
      claim->set_fence(fence_);
      claim->mutable_lease_remaining()->set_seconds(30);
      response.mutable_granted()->set_attempt_number(static_cast<int>(fence_));
      return response;
    });
  }

  absl::StatusOr<v1::CompleteResponse> Complete(const RpcCall& call,
                                                const v1::CompleteRequest& request) override {
    completes.push_back(request);
    return Send<v1::CompleteResponse>(call, [&] {
      v1::CompleteResponse response;
      const bool replayed = receipt_.has_value();
      if (request.attempt_id() != holder_) {
        response.mutable_claim_lost();
        return response;
      }
      if (!replayed) {
        receipt_.emplace();
        receipt_->set_status(request.status());
        receipt_->set_result(request.result());
        receipt_->set_fence(request.fence());
      }
      *response.mutable_completed()->mutable_receipt() = *receipt_;
      response.mutable_completed()->set_replayed(replayed);
      return response;
    });
  }

  absl::StatusOr<v1::AbandonResponse> Abandon(const RpcCall& call,
                                              const v1::AbandonRequest& request) override {
    abandons.push_back(request);
    return Send<v1::AbandonResponse>(call, [&] {
      holder_.clear();
      v1::AbandonResponse response;
      response.mutable_abandoned()->set_mode(request.mode());
      return response;
    });
  }

  absl::StatusOr<v1::RenewResponse> Renew(const RpcCall& call, const v1::RenewRequest&) override {
    return Send<v1::RenewResponse>(call, [&] {
      v1::RenewResponse response;
      response.mutable_claim()->mutable_lease_remaining()->set_seconds(30);
      return response;
    });
  }

  absl::StatusOr<v1::LookupResponse> Lookup(const RpcCall& call,
                                            const v1::LookupRequest& request) override {
    lookups.push_back(request);
    return Send<v1::LookupResponse>(call, [&] {
      v1::LookupResponse response;
      response.mutable_unclaimed()->set_state(v1::OPERATION_STATE_RELEASED);
      return response;
    });
  }
  std::vector<v1::LookupRequest> lookups;

  absl::StatusOr<v1::BatchBeginResponse> BatchBegin(const RpcCall& call,
                                                    const v1::BatchBeginRequest&) override {
    return Send<v1::BatchBeginResponse>(call, [&] { return batch_begin; });
  }
  v1::BatchBeginResponse batch_begin;

  absl::StatusOr<v1::BatchCompleteResponse> BatchComplete(
      const RpcCall& call, const v1::BatchCompleteRequest&) override {
    return Send<v1::BatchCompleteResponse>(call, [&] { return batch_complete; });
  }
  v1::BatchCompleteResponse batch_complete;

  absl::StatusOr<v1::BatchRenewResponse> BatchRenew(const RpcCall& call,
                                                    const v1::BatchRenewRequest& request) override {
    return Send<v1::BatchRenewResponse>(call, [&] {
      v1::BatchRenewResponse response;
      for (int i = 0; i < request.requests_size(); ++i) {
        auto* claim = response.add_results()->mutable_response()->mutable_claim();
        claim->mutable_lease_remaining()->set_seconds(30);
      }
      return response;
    });
  }

 private:
  template <typename Response>
  absl::StatusOr<Response> Send(const RpcCall& call, const std::function<Response()>& act) {
    calls.push_back(call);
    if (mishaps.empty()) return act();
    const Mishap mishap = mishaps.front();
    mishaps.pop_front();
    if (mishap.when == Mishap::When::kAfter) act();
    return mishap.status;
  }

  std::string holder_;
  int64_t fence_ = 0;
  std::optional<v1::Receipt> receipt_;
};

}  // namespace once::testing_support

#endif  // ONCE_TESTS_UNIT_CLIENT_FAKE_STUB_H_
