// Makes random events of the shapes that platforms publish as TypeScript types, one JSON line each.
//
//   node shapes.js MODULES SEED COUNT
//
// MODULES is the folder with the packages; what is printed is {"platform", "event"}. The same seed gives the same events.
"use strict";
const path = require("node:path");
const [modules, seed, count] = [path.resolve(process.argv[2]), Number(process.argv[3]), Number(process.argv[4])];
const ts = require(path.join(modules, "typescript"));

// "heard": the kinds that a channel makes something of; half of what is drawn is of these.
const ROOTS = {
  telegram: { module: "@grammyjs/types/update.d.ts", type: "Update", heard: /^(message|edited_message|callback_query|message_reaction|my_chat_member)$/ },
  slack: { module: "@slack/types/dist/index.d.ts", type: "SlackEvent", heard: /^(message|app_mention|reaction_added|channel_id_changed)$/ },
  discord: { module: "discord-api-types/v10.d.ts", type: "GatewayDispatchPayload", heard: /^(MESSAGE_CREATE|MESSAGE_UPDATE|MESSAGE_REACTION_ADD|INTERACTION_CREATE|THREAD_CREATE|GUILD_CREATE)$/ },
};
const TRIES = 200;
const DEEPEST = 6;
const ODD = ["", " ", "0", "-1", "null", "NaN", "1e400", "\u0000", "ünï\u202Ecode", "🧑‍🧑‍🧒", "a".repeat(300), "<@U1>", "123.456.abc", "\ud800"];
const IDS = [() => String(int(1, 2 ** 31)), () => `C${int(1, 1e8)}`, () => `1${int(1e16, 9e16)}`, () => `${int(1.6e9, 1.8e9)}.${String(int(0, 999999)).padStart(6, "0")}`];

let state = seed >>> 0;
function random() {  // mulberry32
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const int = (low, high) => low + Math.floor(random() * (high - low + 1));
const pick = (list) => list[Math.floor(random() * list.length)];

const files = Object.values(ROOTS).map((root) => path.join(modules, root.module));
const options = { moduleResolution: ts.ModuleResolutionKind.NodeNext, module: ts.ModuleKind.NodeNext, strict: true, skipLibCheck: true, noLib: false, types: [], target: ts.ScriptTarget.ES2022 };
const program = ts.createProgram(files, options);
const checker = program.getTypeChecker();
const F = ts.TypeFlags;

function rootOf({ module, type }) {
  const file = program.getSourceFile(path.join(modules, module));
  const symbol = checker.getExportsOfModule(checker.getSymbolAtLocation(file)).find((one) => one.name === type);
  if (!symbol) throw new Error(`${module} exports no ${type}`);
  return checker.getDeclaredTypeOfSymbol(symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
}

function text(key) {
  if (/(^|_)(id|ts|channel|user|team|parent|thread|target)s?$|Id$/.test(key)) return random() < 0.9 ? pick(IDS)() : pick(ODD);
  if (/timestamp|_at$|date/.test(key)) return random() < 0.8 ? new Date(int(0, 2e12)).toISOString() : pick(ODD);
  return random() < 0.7 ? `w${int(0, 9999)}` : pick(ODD);
}

function number(key) {
  return random() < (/date|time/.test(key) ? 0.97 : 0.8) ? int(0, /date|time|seconds|period|expires/.test(key) ? 2e9 : 2 ** 31 - 1) : pick([0, -1, -1001234567890, 2 ** 40, 2 ** 53 - 1]);
}

function simple(type) {
  return Boolean(type.flags & (F.StringLike | F.NumberLike | F.BooleanLike | F.Null | F.Undefined | F.Any | F.Unknown));
}

// Members of intersections that exclude each other, which the compiler reduces only when it shows them.
function impossible(type) {
  return Boolean(type.flags & F.Never) || (type.isIntersection() && !checker.getPropertiesOfType(type).length && checker.typeToString(type) === "never");
}

function made(type, depth, key) {
  if (type.flags & (F.Undefined | F.Void | F.Never)) return undefined;
  if (type.flags & F.Null) return null;
  if (type.isStringLiteral() || type.isNumberLiteral()) return type.value;
  if (type.flags & F.BooleanLiteral) return type.intrinsicName === "true";
  if (type.isUnion()) {
    const some = type.types.filter((one) => !(one.flags & F.Undefined) && !impossible(one));
    const shallow = some.filter(simple);
    return made(pick(depth >= DEEPEST && shallow.length ? shallow : some), depth, key);
  }
  if (type.flags & F.TemplateLiteral) return type.texts.join(String(int(1, 1e6)));
  if (type.flags & F.StringLike) return text(key);
  if (type.flags & F.NumberLike) return number(key);
  if (type.flags & F.BooleanLike) return random() < 0.5;
  if (type.flags & (F.Any | F.Unknown | F.BigIntLike)) return pick([null, 7, "?", [], {}]);
  if (type.isIntersection() && type.types.some(simple)) return made(type.types.find(simple), depth, key);
  if (checker.isTupleType(type)) return checker.getTypeArguments(type).map((one) => made(one, depth + 1, key) ?? null);
  if (checker.isArrayType(type)) {
    const [of] = checker.getTypeArguments(type);
    return Array.from({ length: depth >= DEEPEST ? 0 : int(0, 2) }, () => made(of, depth + 1, key) ?? null);
  }
  return object(type, depth);
}

function object(type, depth, one = undefined) {
  const found = {};
  if (depth > 2 * DEEPEST) return found;
  const all = checker.getPropertiesOfType(type);
  const optional = all.filter((property) => property.flags & ts.SymbolFlags.Optional);
  const chosen = one ? pick(optional.filter((property) => one.test(property.name))) : undefined;
  for (const property of all) {
    const may = property.flags & ts.SymbolFlags.Optional;
    if (may && (one ? property !== chosen : random() > Math.min(depth > 3 ? 0.1 : 0.4, 5 / optional.length))) continue;
    const of = checker.getTypeOfSymbol(property);
    if (checker.getSignaturesOfType(of, ts.SignatureKind.Call).length) continue;
    const value = made(of, depth + 1, property.name);
    if (value !== undefined) found[property.name] = value;
  }
  return found;
}

function kindOf(platform, event) {
  if (platform === "telegram") return Object.keys(event).find((key) => key !== "update_id") ?? "";
  return String(platform === "slack" ? event.type : event.t);
}

function drawn(platform, members, wanted) {
  for (let tries = 0; ; tries++) {
    const event = platform === "telegram" ? object(members[0], 0, wanted) : made(pick(members), 0, "");
    if (tries >= TRIES || wanted.test(kindOf(platform, event))) return event;
  }
}

// The members of a union whose discriminant fits; all of them where none says so.
function fitting(type, wanted) {
  const members = (type.isUnion() ? type.types : [type]).filter((one) => !impossible(one));
  const some = members.filter((one) =>
    ["t", "type"].some((key) => {
      const property = checker.getPropertyOfType(one, key);
      const of = property && checker.getTypeOfSymbol(property);
      return of && (of.isUnion() ? of.types : [of]).some((literal) => literal.value !== undefined && wanted.test(String(literal.value)));
    }),
  );
  return some.length ? some : members;
}

const lines = [];
for (const [platform, root] of Object.entries(ROOTS)) {
  const type = rootOf(root);
  const [heard, any] = [fitting(type, root.heard), fitting(type, /./)];
  state = seed >>> 0;
  for (let number = 0; number < count; number++) {
    const event = number % 2 ? drawn(platform, heard, root.heard) : drawn(platform, any, /./);
    lines.push(JSON.stringify({ platform, event }));
  }
}
process.stdout.write(lines.join("\n") + "\n");
