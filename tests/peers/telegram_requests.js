// Prints what Telegram's published types (@grammyjs/types) say of the parameters of each Bot API method, as one JSON document.
//
//   node telegram_requests.js MODULES
//
// {"methods": {name: OBJECT}, "named": {key: SHAPE}}. An OBJECT is {parameter: [required, SHAPE]}. A SHAPE is "string", "number",
// "boolean", "file" (what is uploaded), "any", {"is": value}, {"one": [SHAPE]}, {"list": SHAPE}, {"object": OBJECT} or {"named": key}.
"use strict";
const path = require("node:path");
const modules = path.resolve(process.argv[2]);
const ts = require(path.join(modules, "typescript"));
const file = path.join(modules, "@grammyjs/types/methods.d.ts");
const program = ts.createProgram([file], { moduleResolution: ts.ModuleResolutionKind.NodeNext, module: ts.ModuleKind.NodeNext, strict: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022 });
const checker = program.getTypeChecker();
const F = ts.TypeFlags;
const named = {};
const keys = new Map();

function shape(type) {
  if (type.flags & F.TypeParameter) return "file";
  if (type.isStringLiteral() || type.isNumberLiteral()) return { is: type.value };
  if (type.flags & F.BooleanLiteral) return { is: type.intrinsicName === "true" };
  if (type.isUnion()) {
    const some = type.types.filter((one) => !(one.flags & F.Undefined));
    return some.some((one) => one.flags & F.Object) ? { named: keyOf(type, () => ({ one: some.map(shape) })) } : { one: some.map(shape) };
  }
  if (type.flags & F.StringLike) return "string";
  if (type.flags & F.NumberLike) return "number";
  if (type.flags & F.BooleanLike) return "boolean";
  if (type.flags & (F.Any | F.Unknown)) return "any";
  if (type.isIntersection() && type.types.some((one) => one.flags & F.StringLike)) return "string";
  if (checker.isTupleType(type)) return { list: { one: checker.getTypeArguments(type).map(shape) } };
  if (checker.isArrayType(type)) return { list: shape(checker.getTypeArguments(type)[0]) };
  return { named: keyOf(type, () => ({ object: object(type) })) };
}

// Types may hold themselves, so those of objects are written once.
function keyOf(type, make) {
  if (!keys.has(type)) {
    const key = `${type.aliasSymbol?.name ?? type.symbol?.name ?? "?"}#${keys.size}`;
    keys.set(type, key);
    named[key] = make();
  }
  return keys.get(type);
}

function object(type) {
  const all = checker.getPropertiesOfType(type).map((one) => [one.name, [!(one.flags & ts.SymbolFlags.Optional), shape(checker.getTypeOfSymbol(one))]]);
  return Object.fromEntries(all);
}

const symbol = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file))).find((one) => one.name === "ApiMethods");
const methods = {};
for (const method of checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol))) {
  const [signature] = checker.getSignaturesOfType(checker.getTypeOfSymbol(method), ts.SignatureKind.Call);
  const [args] = signature.getParameters();
  const type = args && checker.getTypeOfSymbol(args);
  methods[method.name] = type ? object(checker.getNonNullableType(type)) : {};
}
process.stdout.write(JSON.stringify({ methods, named }));
