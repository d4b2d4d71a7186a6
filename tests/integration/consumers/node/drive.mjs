// Lets a test play with the consumer: commands come in as lines of JSON, answers go out the same way. Not part of the example.
//
//   node drive.mjs PROTO_FOLDER…
//
// The commands are those of ../python/drive.py; calls keep their Python names. Messages in JSON are the same too.

import { createInterface } from 'node:readline';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import * as once from './consumer.mjs';

const kMethods = {
  begin: 'begin',
  complete: 'complete',
  abandon: 'abandon',
  renew: 'renew',
  lookup: 'lookup',
  batch_begin: 'batchBegin',
  batch_complete: 'batchComplete',
  batch_renew: 'batchRenew',
};

const kFailures = {
  RetryAfter: (answer) => new once.RetryAfter(answer.message, answer.delay * 1000),
  ForgetOperation: (answer) => new once.ForgetOperation(answer.message),
  OutcomeUnknown: (answer) => new once.OutcomeUnknown(answer.message),
  Error: (answer) => new Error(answer.message),
};

const kProtoFolders = process.argv.slice(2);
const kAdminOptions = { includeDirs: kProtoFolders, keepCase: true, longs: String, enums: String, defaults: true };
const consumers = new Map();
const admins = new Map();
const businessAnswers = new Map(); // of the business function, by command

// JSON.stringify sees what Buffer.toJSON makes of it; the original is in `this`.
function showBytes(key, value) {
  return Buffer.isBuffer(this[key]) ? this[key].toString('base64') : value;
}

function say(command, what) {
  process.stdout.write(`${JSON.stringify({ id: command.id, ...what }, showBytes)}\n`);
}

const bytes = (text) => Buffer.from(text, 'base64');

function errorToJson(error) {
  return {
    code: grpc.status[error.code],
    message: error.details,
    reason: error.reason,
    domain: error.domain,
    metadata: error.metadata,
    retry_delay: error.retryDelay === null ? null : error.retryDelay / 1000,
    field_violations: error.fieldViolations,
    repeatable: error.repeatable,
  };
}

function executionToJson(execution) {
  return {
    attempt_id: execution.attemptId,
    fence: execution.fence,
    attempt_number: execution.attemptNumber,
    earlier_attempt: execution.earlierAttempt,
    claim_lost: execution.claimLost,
  };
}

function verdictToJson({ action, outcome, receipt, executed, delay }) {
  return { action, outcome, receipt, executed, delay: delay / 1000 };
}

function connect(command) {
  const connection = once.connect(command.server, kProtoFolders);
  const { AdminService } = grpc.loadPackageDefinition(
    protoLoader.loadSync('once/v1/admin_service.proto', kAdminOptions)).once.v1;
  const metadata = new grpc.Metadata();
  metadata.set('authorization', `Bearer ${command.token}`);
  admins.set(command.as, { ...connection, metadata, service: new AdminService(command.server, grpc.credentials.createInsecure()) });
  const consumer = new once.Consumer(connection, command.token, {
    name: command.name,
    handlerVersion: command.handler_version,
    lease: command.lease * 1000,
    giveUpAfter: command.give_up_after * 1000,
  });
  consumers.set(command.as, consumer);
  say(command, { answer: {} });
}

async function administer({ as, method, request }) {
  const { service, metadata, generated } = admins.get(as);
  try {
    return await new Promise((resolve, reject) => {
      service[method](request, metadata, (error, answer) => (error ? reject(error) : resolve(answer)));
    });
  } catch (error) {
    throw once.readError(error, generated);
  }
}

async function answerTo(command) {
  const consumer = consumers.get(command.as);
  if (command.do === 'handle') {
    return verdictToJson(await consumer.handle(deliveryOf(command.delivery), workOf(command), command.wait * 1000));
  }
  return command.do === 'admin' ? administer(command) : consumer[kMethods[command.do]](command.request);
}

function deliveryOf({ event_id, content, attempt_id, ...rest }) {
  const fields = { ...rest, eventId: bytes(event_id), content: bytes(content) };
  if (attempt_id) fields.attemptId = bytes(attempt_id);
  return new once.Delivery(fields);
}

function workOf(command) {
  return async (execution) => {
    for (;;) {
      const answered = new Promise((resolve) => businessAnswers.set(command.id, resolve));
      say(command, { working: executionToJson(execution) });
      const answer = await answered;
      if ('raise' in answer) throw kFailures[answer.raise](answer);
      if ('result' in answer) {
        return new once.Result(bytes(answer.result), { contentType: answer.content_type, rejected: answer.rejected });
      }
    }
  };
}

async function obey(command) {
  try {
    say(command, { answer: await answerTo(command) });
  } catch (error) {
    if (error instanceof once.OnceError) {
      say(command, { error: errorToJson(error) });
    } else {
      const type = error.constructor.name === 'Error' ? 'RuntimeError' : error.constructor.name;
      say(command, { raised: { type, message: error.message } });
    }
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const command = JSON.parse(line);
  if (command.do === 'connect') connect(command);
  else if (command.do === 'answer') businessAnswers.get(command.id)(command.with);
  else obey(command);
}).on('close', () => process.exit(0));
