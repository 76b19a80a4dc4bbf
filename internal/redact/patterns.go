package redact

import (
	"regexp"
	"slices"
	"strings"
)

// pattern is a form of token that is hardly ever anything else. The hints are searched before the expression, because
// that is much cheaper; one of them stands in every match. With a group, only the group is hidden.
type pattern struct {
	kind  string
	hints []string
	re    *regexp.Regexp
	ok    func(match string) bool
}

const privateKey = "private key"

var patterns = []pattern{
	// A private key ends at its end line, or where its lines stop looking like one. "\n" may be spelled out, as in JSON.
	{kind: privateKey, hints: []string{"PRIVATE KEY"}, re: regexp.MustCompile(
		`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=:,.\s\\()-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:-{0,4}[A-Za-z0-9+/=:,.\s\\()])*)`)},
	{kind: privateKey, hints: []string{"AGE-SECRET-KEY-"}, re: regexp.MustCompile(`AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{40,}`)},
	{kind: privateKey, hints: []string{"ferry-key-1 "}, re: regexp.MustCompile(`ferry-key-1 [0-9a-f]{64}`)},
	{kind: "invite", hints: []string{"ferry1."}, re: regexp.MustCompile(`\bferry1\.[a-z2-7]{64,}`)},
	{kind: "AWS key", hints: []string{"AKIA", "ASIA"}, re: regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{kind: "GitHub token", hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
		re: regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})`)},
	{kind: "AWS key", hints: []string{"ecret", "ECRET"}, re: regexp.MustCompile(
		`(?i)\baws_?secret_?(?:access_?)?key\\?["']?[ \t]*[:=][ \t]*\\?["']?([A-Za-z0-9/+]{40})\b`)},
	{kind: "GitLab token", hints: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glagent-", "glft-", "glimt-"},
		re: regexp.MustCompile(`\bgl(?:pat|dt|rt|ptt|cbt|soat|agent|ft|imt)-[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9._-]{4,40})?`)},
	{kind: "API key", hints: []string{"sk-"}, re: regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`), ok: random},
	{kind: "API key", hints: []string{"sk_live_", "rk_live_"}, re: regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{16,}`)},
	{kind: "API key", hints: []string{"AIza"}, re: regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
	{kind: "API key", hints: []string{"hf_"}, re: regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
	{kind: "API key", hints: []string{"nvapi-"}, re: regexp.MustCompile(`\bnvapi-[A-Za-z0-9_-]{40,}`)},
	{kind: "API key", hints: []string{"gsk_", "csk-", "xai-", "pplx-", "fw_", "r8_", "tgp_v1_"},
		re: regexp.MustCompile(`\b(?:gsk_|csk-|xai-|pplx-|fw_|r8_|tgp_v1_)[A-Za-z0-9_-]{22,}`), ok: random},
	{kind: "API key", hints: []string{"GOCSPX-"}, re: regexp.MustCompile(`\bGOCSPX-[A-Za-z0-9_-]{24,}`)},
	{kind: "Google token", hints: []string{"ya29."}, re: regexp.MustCompile(`\bya29\.[A-Za-z0-9._-]{20,}`)},
	{kind: "PyPI token", hints: []string{"pypi-AgE"}, re: regexp.MustCompile(`\bpypi-AgE[A-Za-z0-9_-]{40,}`)},
	{kind: "API key", hints: []string{"SG."}, re: regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}`)},
	{kind: "API key", hints: []string{"dop_v1_", "doo_v1_", "dor_v1_"}, re: regexp.MustCompile(`\bdo[por]_v1_[a-f0-9]{64}`)},
	{kind: "API key", hints: []string{"dckr_pat_", "dckr_oat_"}, re: regexp.MustCompile(`\bdckr_[po]at_[A-Za-z0-9_-]{24,}`)},
	{kind: "API key", hints: []string{"hvs."}, re: regexp.MustCompile(`\bhvs\.[A-Za-z0-9_-]{24,}`), ok: random},
	{kind: "API key", hints: []string{"whsec_"}, re: regexp.MustCompile(`\bwhsec_[A-Za-z0-9+/]{24,}`), ok: random},
	{kind: "npm token", hints: []string{"npm_"}, re: regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{kind: "Slack token", hints: []string{"xox"}, re: regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`), ok: random},
	{kind: "Slack token", hints: []string{"xapp-"}, re: regexp.MustCompile(`\bxapp-[0-9]-[A-Za-z0-9-]{10,}`), ok: random},
	{kind: "Slack token", hints: []string{"hooks.slack.com/"}, re: regexp.MustCompile(`\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})`)},
	{kind: "JWT", hints: []string{"eyJ"}, re: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{kind: "Telegram token", hints: []string{":AA"}, re: regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}`)},
	{kind: "authorization", hints: []string{"uthorization", "UTHORIZATION"}, re: regexp.MustCompile(
		`(?i)\bauthorization\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:bearer|basic|token)[ \t]+([A-Za-z0-9._~+/=-]{8,})`)},
}

// hints returns those of all patterns.
func hints() []string {
	var out []string
	for _, p := range patterns {
		out = append(out, p.hints...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// find returns the matches of p in s, in which the hinted words stand.
func (p pattern) find(s string, hinted map[string]bool) []Hit {
	if !slices.ContainsFunc(p.hints, func(hint string) bool { return hinted[hint] }) {
		return nil
	}
	var hits []Hit
	for _, at := range p.re.FindAllStringSubmatchIndex(s, -1) {
		at = at[len(at)-2:]
		if p.ok == nil || p.ok(s[at[0]:at[1]]) {
			hits = append(hits, Hit{Start: at[0], End: at[1], Kind: p.kind})
		}
	}
	return hits
}

// random reports whether a token has a digit, which a name with dashes in it hardly has.
func random(token string) bool { return strings.ContainsAny(token, "0123456789") }
