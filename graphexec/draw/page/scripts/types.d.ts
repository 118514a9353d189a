// The data of the page, and what its scripts make of it: global names for the annotations of the scripts.
//
// `graphexec.draw.runs.records` describes the fields of records, and `record_schema` validates them: a field that is not
// optional here is required there, which `tests/draw/test_scripts.py` asserts.

/** A record of a run: one event. */
type RunRecord =
  | StartRecord
  | EnteredRecord
  | AskedRecord
  | ReportedRecord
  | AnsweredRecord
  | MovedRecord
  | AliveRecord
  | FailedRecord
  | ResultRecord;

/** A record of what happened between the beginning of a visit and its move. */
type VisitRecord = AskedRecord | ReportedRecord | AnsweredRecord | FailedRecord;

/** What any record may have. */
interface AnyRecord {
  time?: number;
  spent?: SpentData;
}

interface StartRecord extends AnyRecord {
  event: "start";
  version: number;
  machine?: PictureData;
  began?: string;
  limits?: LimitsData;
  /** The limits of the machine's own budgets. */
  budgets?: Record<string, number | null>;
  input?: any;
  model?: string;
  agent?: string;
  tools?: ToolData[];
  parameters?: Record<string, any>;
  heartbeat?: number;
}

interface EnteredRecord extends AnyRecord {
  event: "entered";
  node: string;
  spent: SpentData;
  run?: string;
}

interface AskedRecord extends AnyRecord {
  event: "asked";
  node: string;
  call?: CallIdData;
  provider_id?: string;
  effects: EffectData[];
}

interface ReportedRecord extends AnyRecord {
  event: "reported";
  node: string;
  call?: CallIdData;
  provider_id?: string;
  effects: EffectData[];
  news: string;
  text: string;
  reasoning?: string;
}

interface AnsweredRecord extends AnyRecord {
  event: "answered";
  node: string;
  call?: CallIdData;
  provider_id?: string;
  spent: SpentData;
  replies: ReplyData[];
  within?: Record<string, number>;
}

interface MovedRecord extends AnyRecord {
  event: "moved";
  node: string;
  outcome: string;
  target: string;
  /** The outcome's own data. */
  value?: any;
  steps?: StepData[];
  /** What the run of an embedded graph is given, when it begins. */
  task?: any;
}

interface AliveRecord extends AnyRecord {
  event: "alive";
  time: number;
}

interface FailedRecord extends AnyRecord {
  event: "failed";
  node: string;
  call?: CallIdData;
  provider_id?: string;
  began: number;
  seconds: number;
  error: ErrorData;
}

/** A run that could not begin has no more than `status`, `exit_code` and `error`. */
interface ResultRecord extends AnyRecord {
  event: "result";
  status: string;
  exit_code?: number;
  output?: any;
  reason?: string | null;
  cause?: LimitData | RefusalData | null;
  steps?: StepData[];
  seconds?: number;
  error?: ErrorData | null;
  unread?: string;
}

interface ToolData {
  name: string;
  description?: string;
  parameters?: Record<string, any>;
}

/** The limits by name; null means no limit. */
interface LimitsData {
  [name: string]: number | null | undefined | Record<string, number | null>;
  iterations?: number | null;
  budgets?: Record<string, number | null>;
}

/** The limit that stopped a run. */
interface LimitData {
  limit: string;
  value: number;
  reached: number;
  wanted: number;
  outer: boolean;
}

/** The refusal that stopped a run: the node or piece that refused, and why. */
interface RefusalData {
  by: string;
  why: string;
}

/** The usage of a run. */
interface SpentData {
  iterations: number;
  seconds: number;
  model_calls: number;
  tool_calls: number;
  prompt_tokens: number;
  completion_tokens: number;
  tokens: number;
  cached_tokens?: number;
  silent_calls?: number;
  restarts?: number;
  cost: number;
  budgets: Record<string, number>;
}

interface CallIdData {
  run: string;
  sequence: number;
  member: number;
}

interface EffectData {
  effect: string;
  tool?: string;
  tool_input?: any;
  prompt?: PromptData;
  request?: RequestData;
  question?: string;
  value?: any;
}

/** What is new in a prompt: `kept` messages of the one before come first. */
interface PromptData {
  kept: number;
  messages: MessageData[];
}

/** A message; `kept` characters of the one that it continues come before `content`. */
interface MessageData {
  role: string;
  content: string;
  kept?: number;
  tool_calls?: CallData[];
  call_id?: string;
  images?: string[];
}

interface RequestData {
  tools?: ToolData[];
  stop?: string[];
  schema?: Record<string, any> | null;
  tool_choice?: string;
}

/** A call of a tool that a model asks for. */
interface CallData {
  id: string;
  name: string;
  arguments: string;
}

interface ReplyData {
  effect: string;
  began: number;
  seconds: number;
  content?: string;
  tool_calls?: CallData[];
  finish_reason?: string;
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  cost?: number;
  reasoning?: string;
  tool?: string;
  status?: string;
  error?: string | null;
  observation?: any;
  traceback?: string;
  value?: any;
}

/** An action of an agent with its observation. */
interface StepData {
  tool?: string;
  tool_input?: any;
  observation?: any;
  status?: string;
  error?: string | null;
  unread?: string;
}

interface ErrorData {
  type: string;
  message: string;
  traceback?: string;
}

/** A machine, as `graphexec.draw.model.picture` has it. */
interface PictureData {
  start: string;
  boxes: BoxData[];
  arrows: ArrowData[];
  caption?: string[];
}

interface BoxData {
  name: string;
  look: string;
  lines?: string[];
  metered?: boolean;
  mark?: string;
  notes?: string[];
  taken?: boolean;
  current?: boolean;
  failed?: boolean;
  group?: string;
}

interface ArrowData {
  source: string;
  outcome: string;
  target: string;
  resets?: string[];
  exhausts?: boolean;
  limits?: string[];
  mark?: string;
  notes?: string[];
  taken?: boolean;
}

/** What the page is given. `clusters` are the nodes in each box, by its path; `live` is the address of a live feed. */
interface PageData {
  picture: PictureData;
  clusters: Record<string, string[]>;
  /** The records of the run, as `unpack` reads them. */
  records: string;
  live: string | null;
}

/** A run: its records in order, grouped into visits of nodes. */
interface Run {
  start: Partial<StartRecord>;
  visits: Visit[];
  result: ResultRecord | null;
  /** The number of its records. */
  count: number;
  /** The number of the last iteration. */
  iterations: number | null;
  /** The error with which a live feed ended, or "" without one. */
  over: string | null;
  /** The last record's, in seconds since the start. */
  time: number | null;
  /** Whether the writer gives no sign of life. */
  silent: boolean;
  /** The effects that ask a model. */
  requests: ModelEffect[];
  /** The messages of the last request. */
  prompt: Message[];
  /** The settings of the last request. */
  settings: RequestData;
}

/** A visit of a node, which is a step of the page. */
interface Visit {
  node: string;
  previous: Visit | null;
  entered: EnteredRecord | null;
  /** The usage before it, and the last known one of it. */
  before: SpentData | null;
  spent: SpentData | null;
  records: VisitRecord[];
  moved: MovedRecord | null;
  failure: FailedRecord | null;
  /** Whether something failed; null if it is not known yet. */
  failed: boolean | null;
  /** The text for the search; null if it is not known yet. */
  searched: string | null;
  /** Its calls with their times, and what equal iterations have in common; null if they are not known yet. */
  spans: [import("./run/lanes.js").CallKind, import("./run/lanes.js").CallSpan][] | null;
  keys: Map<boolean, string> | null;
  /** Its calls, as they were with so many records. */
  requests?: { records: number; found: CallGroup[]; calls: Call[] };
  /** The iteration that it consumes, or null. */
  iteration: number | null;
  /** The number of the last iteration before it. */
  iterations: number | null;
}

/** An effect that asks a model. */
type ModelEffect = EffectData & { prompt: PromptData };

/** A message; `before` is the one that it continues. */
interface Message extends MessageData {
  before: Message | null;
}

/** A request to a model: `index` is its place among those of the run, `position` and `node` are those of its step. */
interface ModelRequest {
  messages: Message[];
  settings: RequestData;
  index: number;
  position: number;
  node: string;
}

/** The calls that a node requested together, and the reports about none of them. */
interface CallGroup {
  sequence: number | null;
  calls: Call[];
  notices: ReportedRecord[];
  /** Whether calls began before others had ended. */
  atOnce: boolean;
}

/** A call: its effect, the reports about it, the pieces of its reply, and how it ended. */
interface Call {
  member: number;
  effect: EffectData | null;
  notices: ReportedRecord[];
  streamed: string;
  answer: AnsweredRecord | null;
  reply: ReplyData | null;
  failure: FailedRecord | null;
}

/** A condition of the filter; with a sign of comparison, `value` is in seconds. */
type Condition = { field: "node" | "status" | "tool" | "outcome"; value: string } | { field: "<" | ">"; value: number };

/** A node or an edge of the drawing. */
interface DrawingPart {
  node?: string;
  edge?: number;
}

interface Point {
  x: number;
  y: number;
}

/** The elements of the page that are more than any element, by id. */
interface PageElements {
  back: HTMLButtonElement;
  calls: HTMLCanvasElement;
  first: HTMLButtonElement;
  forward: HTMLButtonElement;
  last: HTMLButtonElement;
  "next-match": HTMLButtonElement;
  "previous-match": HTMLButtonElement;
  search: HTMLInputElement;
  slider: HTMLInputElement;
  speed: HTMLSelectElement;
}

// The standard library does not say that `filter(Boolean)` leaves out what is nothing.
interface Array<T> {
  filter(predicate: BooleanConstructor): Exclude<T, null | undefined | false | 0 | "">[];
}
