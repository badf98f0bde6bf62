// Package policy knows what may be where, what may be spent on it, and what it costs: three files that people write, read strictly.
//
//   - Rules: which checkpoints may be copied to which site, and by which means hot files may have more sources. The default is no. It is the [plan.Policy].
//   - Budgets: what may be spent on that, with the rates of links by the hour.
//   - Prices: what it is worth and what it costs.
//
// What a file means is a pure function of its text. A file with a mistake is refused whole, with the line, the key and the rule; what was in force stays.
// docs/policy.md and docs/budgets.md are the reference.
package policy
