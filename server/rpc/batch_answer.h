// The answer to a batch, gathered item by item from whichever thread answers, and sent by the one
// that answers last. Thread-safe. Private to `rpc`.
#ifndef ONCE_RPC_BATCH_ANSWER_H_
#define ONCE_RPC_BATCH_ANSWER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "rpc/call.h"
#include "rpc/error_details.h"
#include "rpc/response.h"

namespace once::rpc {

// Clients refuse messages above 4 MiB unless told otherwise. Results that do not fit are left out
// and marked.
inline constexpr size_t kReplyBudgetBytes = (size_t{7} << 20) / 2;

// Frees the result's memory, which Clear would keep.
inline void OmitResult(v1::Receipt* receipt) {
  std::string().swap(*receipt->mutable_result());
  receipt->set_result_omitted(true);
}

// Leaves out results from the end until the response fits.
template <typename BatchResponse>
void TrimToBudget(size_t budget, BatchResponse* response) {
  size_t size = response->ByteSizeLong();
  for (int i = response->results_size() - 1; i >= 0 && size > budget; --i) {
    auto* const item = response->mutable_results(i);
    v1::Receipt* const receipt =
        item->has_response() ? ReceiptOf(item->mutable_response()) : nullptr;
    if (receipt != nullptr && !receipt->result().empty()) {
      size -= receipt->result().size();
      OmitResult(receipt);
    }
  }
}

template <typename BatchResponse>
class BatchAnswer {
 public:
  BatchAnswer(Call call, int items)
      : call_(std::move(call)),
        outcomes_(static_cast<size_t>(items)),
        unanswered_(items),
        result_bytes_left_(static_cast<int64_t>(kReplyBudgetBytes)) {
    response_.mutable_results()->Reserve(items);
    for (int i = 0; i < items; ++i) {
      response_.add_results();
    }
    call_.record().items = static_cast<size_t>(items);
  }

  // Each item once, by one of these two.
  template <typename Outcome>
  void Answer(int item, const OperationFacts& facts, absl::StatusOr<Outcome> outcome) {
    if (!outcome.ok()) {
      Fail(item, outcome.status());
      return;
    }
    auto* const response = response_.mutable_results(item)->mutable_response();
    const absl::StatusOr<absl::string_view> name =
        FillResponse(*std::move(outcome), facts, response);
    if (!name.ok()) {
      Fail(item, name.status());
      return;
    }
    if (v1::Receipt* const receipt = ReceiptOf(response); receipt != nullptr) {
      ReserveOrOmit(receipt);
    }
    Answered(item, *name);
  }

  void Fail(int item, const absl::Status& error) {
    FillItemError(error, response_.mutable_results(item)->mutable_error());
    Answered(item, base::ReasonName(base::DetailsOf(Public(error)).reason));
  }

 private:
  // At once, so that a batch of a thousand large receipts never lies in memory as a whole.
  void ReserveOrOmit(v1::Receipt* receipt) {
    const auto size = static_cast<int64_t>(receipt->result().size());
    if (result_bytes_left_.fetch_sub(size) < size) {
      result_bytes_left_.fetch_add(size);
      OmitResult(receipt);
    }
  }

  void Answered(int item, absl::string_view outcome) {
    outcomes_[static_cast<size_t>(item)] = outcome;
    if (unanswered_.fetch_sub(1) == 1) {
      Send();
    }
  }

  void Send() {
    TrimToBudget(kReplyBudgetBytes, &response_);
    std::sort(outcomes_.begin(), outcomes_.end());
    auto& counts = call_.record().item_outcomes;
    for (const absl::string_view outcome : outcomes_) {
      if (counts.empty() || counts.back().first != outcome) {
        counts.emplace_back(outcome, 0);
      }
      ++counts.back().second;
    }
    std::move(call_).Answer(response_, "batch");
  }

  Call call_;
  BatchResponse response_;  // item i is touched only by the thread that answers it
  std::vector<absl::string_view> outcomes_;
  std::atomic<int> unanswered_;
  std::atomic<int64_t> result_bytes_left_;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_BATCH_ANSWER_H_
