// A consumer of Once, made of generated code and the stock gRPC library only. Copy it.
//
//   const consumer = new Consumer(connect('once.internal:7447', protoFolders, 'ca.pem'), token, { name: 'points-7f9c' });
//   const verdict = await consumer.handle(delivery, grantPoints);
//   if (verdict.action === Action.ACKNOWLEDGE) ...
//
// `handle` is the loop that every consumer needs; the other methods are the calls of once.v1.IdempotencyService, one to one, with the
// repeating of calls and the reading of errors that every call needs. Nothing blocks; one consumer serves any number of deliveries.
//
// The code is generated at start by @grpc/proto-loader. In messages, names are those of the protos, bytes are Buffers, enums are their
// names, a oneof has a property that says which of it is set, and 64-bit integers are decimal strings, because a number would lose
// digits: send a fence back as it came, compare fences as BigInt.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

export const log = { info() {}, warn: console.warn }; // replace with your own

const kCallTimeout = 10_000; // ms for one sending of a call; a wait that was asked for is added
const kGiveUpAfter = 60_000; // ms after which a call is not repeated any more: longer than a failover of the database takes
const [kFirstPause, kLongestPause] = [50, 5_000]; // ms between repeats, doubling

// ---- connecting ----

// [channel
// Service client and error messages; to keep for the life of the process. Without TLS only to this machine: the token crosses the
// network. `protoFolders` hold once/v1 and google/rpc.
export function connect(target, protoFolders, caFile) {
  const generated = protoLoader.loadSync(
    ['once/v1/idempotency_service.proto', 'google/rpc/status.proto', 'google/rpc/error_details.proto'],
    { includeDirs: protoFolders, keepCase: true, longs: String, enums: String, defaults: true, oneofs: true },
  );
  const Service = grpc.loadPackageDefinition(generated).once.v1.IdempotencyService;
  const credentials = caFile ? grpc.credentials.createSsl(readFileSync(caFile)) : grpc.credentials.createInsecure();
  const service = new Service(target, credentials, {
    'grpc.keepalive_time_ms': 30_000, // the server allows pings every 10 s
    'grpc.keepalive_timeout_ms': 10_000,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 5_000,
    'grpc.max_receive_message_length': 8 << 20, // above the server's 4 MiB, so that its own error is seen
    'grpc.enable_retries': 0, // one layer of repeating: ours, which knows what is safe
  });
  return { service, generated };
}
// ]

// ---- errors ----

// A call failed. `reason` is a name of once.v1.ErrorReason without its prefix; empty where the error is not the server's.
export class OnceError extends Error {
  constructor(code, message) {
    super(`${grpc.status[code]}: ${message}`);
    this.name = 'OnceError';
    this.code = code; // a grpc.status
    this.details = message;
    this.reason = '';
    this.domain = '';
    this.metadata = {};
    this.retryDelay = null; // ms; set where the server says when to come back
    this.fieldViolations = []; // { field: path, description: what is wrong }
  }

  // Whether the same request, with the same attempt id, should be sent again.
  get repeatable() {
    // [repeatable
    if (this.code === grpc.status.UNAVAILABLE || this.code === grpc.status.DEADLINE_EXCEEDED) return true;
    // Without a delay it is gRPC's own word for a message that is too large.
    return this.code === grpc.status.RESOURCE_EXHAUSTED && this.retryDelay !== null;
    // ]
  }
}

// [error
// Reads the details that come with the status.
export function readError(error, generated) {
  const read = new OnceError(error.code, error.details);
  for (const value of error.metadata?.get('grpc-status-details-bin') ?? []) {
    for (const detail of generated['google.rpc.Status'].deserialize(value).details) {
      const type = detail.type_url.split('/').pop();
      const message = generated[type]?.deserialize(detail.value);
      if (type === 'google.rpc.ErrorInfo') {
        [read.reason, read.domain, read.metadata] = [message.reason, message.domain, message.metadata];
      } else if (type === 'google.rpc.RetryInfo') {
        read.retryDelay = milliseconds(message.retry_delay);
      } else if (type === 'google.rpc.BadRequest') {
        read.fieldViolations = message.field_violations;
      }
    }
  }
  return read;
}
// ]

// ---- what `handle` takes and gives ----

// One message as the broker handed it over, with the identity of the business event that it is about.
export class Delivery {
  constructor({ handler, eventId, content, scheme = 'DIGEST_SCHEME_UNSPECIFIED', reference = '',
    source = 'DELIVERY_SOURCE_UNSPECIFIED', attemptId = newAttemptId() }) {
    this.handler = handler; // the kind of processing
    this.eventId = eventId; // Buffer, fixed when the fact happened; not the broker's message id
    this.content = content; // Buffer
    this.scheme = scheme;
    this.reference = reference; // the broker's own: message id, offset
    this.source = source;
    // Made here, so once for each delivery. Better: kept with the message, so that a restarted consumer is still the holder.
    this.attemptId = attemptId;
  }
}

// The final answer of the business. A failure that may succeed later is an exception instead.
export class Result {
  constructor(body = Buffer.alloc(0), { contentType = '', rejected = false } = {}) {
    this.body = body;
    this.contentType = contentType;
    this.rejected = rejected; // refused for good, for a business reason
  }
}

// Thrown by the business function: give the claim back; nobody shall be granted for `delay` ms.
export class RetryAfter extends Error {
  constructor(message, delay) {
    super(message);
    this.delay = delay;
  }
}

// Thrown by the business function: nothing happened, and the identity may be used for other content.
export class ForgetOperation extends Error {}

// Thrown by the business function: it may have acted (a payment call timed out). The claim is kept until its lease is over, so that
// the next attempt is told.
export class OutcomeUnknown extends Error {}

// What to do with the message now.
export const Action = Object.freeze({
  ACKNOWLEDGE: 'acknowledge',
  COME_BACK: 'come back', // do not acknowledge; let the broker deliver it again, after `delay`
  STOP: 'stop', // do not acknowledge, do not try again: a person has to look
});

// `outcome`: what decided, an outcome of Begin or Complete. `executed`: whether the business function ran this time. `delay`: ms.
// `answer`: the outcome's message, for people.
function verdict(action, outcome, { receipt = null, executed = false, delay = 0, answer = null } = {}) {
  return Object.freeze({ action, outcome, receipt, executed, delay, answer });
}

// What the business function is told.
export class Execution {
  #lost = false;
  #leaseEnd;

  constructor(delivery, granted, measuredFrom) {
    this.delivery = delivery;
    this.attemptId = granted.claim.attempt_id;
    this.fence = granted.claim.fence; // a decimal string; write it beside the effect
    this.attemptNumber = granted.attempt_number;
    // Set where an earlier attempt may have acted: ask the business data first.
    this.earlierAttempt = granted.earlier_attempt;
    this.renewed(granted.claim, measuredFrom);
  }

  renewed(claim, measuredFrom) {
    this.#leaseEnd = measuredFrom + milliseconds(claim.lease_remaining);
  }

  lose() {
    this.#lost = true;
  }

  // Ask before an effect that cannot be fenced. Failed renewals alone do not make it true.
  get claimLost() {
    return this.#lost || performance.now() >= this.#leaseEnd;
  }
}

// ---- the consumer ----

export class Consumer {
  #service;
  #generated;
  #metadata = new grpc.Metadata();
  #name;
  #handlerVersion;
  #lease;
  #giveUpAfter;

  constructor({ service, generated }, token, { name = '', handlerVersion = '', lease = 30_000, giveUpAfter = kGiveUpAfter } = {}) {
    this.#service = service;
    this.#generated = generated;
    this.#metadata.set('authorization', `Bearer ${token}`);
    this.#name = name;
    this.#handlerVersion = handlerVersion;
    this.#lease = lease;
    this.#giveUpAfter = giveUpAfter;
  }

  // ---- the calls, one to one ----

  begin(request) {
    return this.#call('Begin', request, milliseconds(request.wait));
  }

  complete(request) {
    return this.#call('Complete', request);
  }

  abandon(request) {
    return this.#call('Abandon', request);
  }

  renew(request) {
    return this.#call('Renew', request);
  }

  lookup(request) {
    return this.#call('Lookup', request, milliseconds(request.wait));
  }

  batchBegin(request) {
    return this.#call('BatchBegin', request);
  }

  batchComplete(request) {
    return this.#call('BatchComplete', request);
  }

  batchRenew(request) {
    return this.#call('BatchRenew', request);
  }

  // [call
  // Sends the same request until it is answered, or OnceError where repeating does not help or has lasted long enough.
  async #call(method, request, wait = 0) {
    const giveUp = performance.now() + this.#giveUpAfter + wait;
    for (let pause = kFirstPause; ; pause = Math.min(pause * 2, kLongestPause)) {
      let failure;
      try {
        const deadline = new Date(Date.now() + kCallTimeout + wait);
        return await new Promise((resolve, reject) => {
          this.#service[method](request, this.#metadata, { deadline }, (error, answer) =>
            error ? reject(error) : resolve(answer));
        });
      } catch (error) {
        failure = readError(error, this.#generated);
      }
      // Spread, so that all who were sent away together do not come back together.
      const delay = Math.max(pause * (0.5 + 0.5 * Math.random()), (failure.retryDelay ?? 0) * (1 + 0.25 * Math.random()));
      if (!failure.repeatable || performance.now() + delay >= giveUp) throw failure;
      log.info(`sending ${method} again in ${Math.round(delay)} ms: ${failure.reason} ${failure.message}`);
      await sleep(delay);
    }
  }
  // ]

  // ---- the loop ----

  // [handle
  // Runs `work` if this delivery is the one that must, and says what to do with the message. What `work` throws passes through after
  // the claim was given back: do not acknowledge then. OnceError: as if it had not been delivered.
  async handle(delivery, work, wait = 0) {
    const began = performance.now();
    const answer = await this.begin(this.#beginRequest(delivery, wait));
    const outcome = answer.outcome;
    const told = answer[outcome];
    if (outcome === 'granted') return this.#execute(delivery, told, began, work);
    log.info(`${nameOf(delivery)}: ${outcome}`);
    switch (outcome) {
      case 'completed':
        return verdict(Action.ACKNOWLEDGE, outcome, { receipt: told.receipt, answer: told });
      case 'stale':
      case 'expired':
        return verdict(Action.ACKNOWLEDGE, outcome, { answer: told });
      case 'in_progress':
        return verdict(Action.COME_BACK, outcome, { delay: milliseconds(told.suggested_wait), answer: told });
      default: // conflict, in_doubt, and whatever a newer server may say
        return verdict(Action.STOP, outcome, { answer: told });
    }
  }
  // ]

  #beginRequest(delivery, wait) {
    return {
      handler: delivery.handler,
      event_id: delivery.eventId,
      content: { data: delivery.content, scheme: delivery.scheme },
      attempt_id: delivery.attemptId,
      lease: duration(this.#lease),
      wait: duration(wait),
      consumer: this.#name,
      handler_version: this.#handlerVersion,
      delivery: { reference: delivery.reference, source: delivery.source },
    };
  }

  async #execute(delivery, granted, began, work) {
    const execution = new Execution(delivery, granted, began);
    log.info(`${nameOf(delivery)}: granted, number ${granted.attempt_number}, fence ${granted.claim.fence}` +
      (execution.earlierAttempt ? '; an earlier attempt is unknown' : ''));
    // A Begin that waited or was repeated says little about how much of the lease is left.
    if (performance.now() - began > milliseconds(granted.claim.lease_remaining) / 3) {
      await this.#renew(execution);
      if (execution.claimLost) return verdict(Action.COME_BACK, 'claim_lost');
    }
    const renewals = this.#renewals(execution);
    let result;
    try {
      result = await work(execution);
    } catch (failure) {
      await renewals.stop();
      await this.#giveBack(execution, failure);
      throw failure;
    }
    await renewals.stop();
    return this.#complete(execution, result);
  }

  async #complete(execution, result) {
    const answer = await this.complete({
      handler: execution.delivery.handler,
      event_id: execution.delivery.eventId,
      attempt_id: execution.attemptId,
      fence: execution.fence,
      status: result.rejected ? 'RECEIPT_STATUS_REJECTED' : 'RECEIPT_STATUS_SUCCEEDED',
      result: result.body,
      content_type: result.contentType,
    });
    const outcome = answer.outcome;
    const told = answer[outcome];
    log.info(`${nameOf(execution.delivery)}: ${outcome}`);
    switch (outcome) {
      case 'completed':
        return verdict(Action.ACKNOWLEDGE, outcome, { receipt: told.receipt, executed: true, answer: told });
      case 'claim_lost': // somebody took over: come back for their receipt
        return verdict(Action.COME_BACK, outcome, { executed: true, answer: told });
      default: // completed before, with another result
        return verdict(Action.STOP, outcome, { executed: true, answer: told });
    }
  }

  async #giveBack(execution, failure) {
    if (failure instanceof OutcomeUnknown) return;
    const request = {
      handler: execution.delivery.handler,
      event_id: execution.delivery.eventId,
      attempt_id: execution.attemptId,
      fence: execution.fence,
      mode: failure instanceof ForgetOperation ? 'MODE_FORGET' : 'MODE_RELEASE',
      reason: String(failure?.message ?? failure).replace(/[^ -~]/g, '?').slice(0, 255),
    };
    if (failure instanceof RetryAfter) request.retry_delay = duration(failure.delay);
    try {
      await this.abandon(request);
    } catch (error) { // what is not given back ends with its lease
      log.warn(`${nameOf(execution.delivery)} was not given back: ${error.message}`);
    }
  }

  async #renew(execution) {
    const sent = performance.now();
    let answer;
    try {
      answer = await this.renew({
        handler: execution.delivery.handler,
        event_id: execution.delivery.eventId,
        attempt_id: execution.attemptId,
        fence: execution.fence,
        lease: duration(this.#lease),
      });
    } catch (error) { // the lease that was granted goes on by our own clock
      log.warn(`${nameOf(execution.delivery)} was not renewed: ${error.message}`);
      return;
    }
    if (answer.outcome === 'claim') {
      execution.renewed(answer.claim, sent);
    } else {
      log.warn(`${nameOf(execution.delivery)} lost its claim to ${answer.claim_lost.consumer}`);
      execution.lose();
    }
  }

  // Renews at a third of the lease while the business function runs.
  #renewals(execution) {
    const done = new AbortController();
    const run = async () => {
      while (!execution.claimLost) {
        await sleep(this.#lease / 3, undefined, { signal: done.signal, ref: false });
        await this.#renew(execution);
      }
    };
    const running = run().catch((error) => {
      if (error.name !== 'AbortError') throw error;
    });
    return {
      async stop() {
        done.abort();
        await running; // no renewal is under way when the claim is completed or given back
      },
    };
  }
}

// ---- ids and durations ----

export function newAttemptId() {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}

function nameOf(delivery) {
  return `${delivery.handler} ${JSON.stringify(delivery.eventId.toString('latin1'))} attempt ${delivery.attemptId.toString('hex')}`;
}

export function milliseconds(value) {
  return value ? Number(value.seconds) * 1000 + value.nanos / 1e6 : 0;
}

export function duration(ms) {
  const nanos = Math.round(ms * 1e6);
  return { seconds: String(Math.trunc(nanos / 1e9)), nanos: nanos % 1e9 };
}
