#include "pipeline/call.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace once::pipeline {

using base::ErrorReason;
using base::MakeError;

std::shared_ptr<PendingReply> PendingOf(const WriteCall& call) {
  return std::visit([](const auto& reply) -> std::shared_ptr<PendingReply> { return reply; },
                    call.reply);
}

std::shared_ptr<PendingReply> PendingOf(const ReadCall& call) { return call.reply; }

void AnswerNotFound(WriteCall& call) {
  struct Visitor {
    const store::Command& command;

    void operator()(const std::shared_ptr<Reply<core::BeginOutcome>>& reply) const {
      // A Begin makes its handler; a store that says otherwise is broken.
      reply->Fail(StoreRefusedError());
    }
    void operator()(const std::shared_ptr<Reply<core::CompleteOutcome>>& reply) const {
      reply->Answer(core::CompleteOutcome(core::NotFound{}));
    }
    // To forget what is not there is done already.
    void operator()(const std::shared_ptr<Reply<core::AbandonOutcome>>& reply) const {
      const auto& abandon = std::get<store::AbandonCommand>(command);
      reply->Answer(core::DecideAbandon(nullptr, abandon.request, core::DbTime{}).outcome);
    }
    void operator()(const std::shared_ptr<Reply<core::RenewOutcome>>& reply) const {
      reply->Answer(core::RenewOutcome(core::NotFound{}));
    }
    void operator()(const std::shared_ptr<Reply<core::ResolveOutcome>>& reply) const {
      reply->Answer(core::ResolveOutcome(core::NotFound{}));
    }
    void operator()(const std::shared_ptr<Reply<core::ResetOutcome>>& reply) const {
      reply->Answer(core::ResetOutcome(core::NotFound{}));
    }
  };
  std::visit(Visitor{call.command}, call.reply);
}

absl::Status OverloadedError(absl::string_view what, size_t limit) {
  return MakeError(ErrorReason::kOverloaded,
                   absl::StrCat("the server is full: ", what, " (limit ", limit, ")"),
                   {{"full", std::string(what)}, {"limit", absl::StrCat(limit)}});
}

absl::Status TenantWaitersError(size_t limit) {
  return MakeError(ErrorReason::kQuotaExceeded,
                   absl::StrCat("too many calls of this tenant are waiting (limit ", limit, ")"),
                   {{"quota", "waiting calls"}, {"limit", absl::StrCat(limit)}});
}

absl::Status DrainingError() {
  return MakeError(ErrorReason::kDraining,
                   "the server is shutting down and did not run the call; ask another server");
}

absl::Status DeadlineError() {
  return MakeError(ErrorReason::kDeadlineExceeded,
                   "the call's deadline passed before it was run; nothing was changed");
}

absl::Status UnknownOutcomeError() {
  return MakeError(ErrorReason::kOutcomeUnknown,
                   "the database did not say whether the call was committed; the same request is "
                   "safe to send again");
}

absl::Status StoreUnavailableError() {
  return MakeError(ErrorReason::kStoreUnavailable,
                   "the database cannot be reached; nothing was changed");
}

absl::Status StoreRefusedError() {
  return MakeError(ErrorReason::kInternal, "the database refused the call; nothing was changed");
}

}  // namespace once::pipeline
