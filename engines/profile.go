package engines

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What an engine can take in or make.
const (
	ModalityText     = "text"
	ModalityCode     = "code" // edits files
	ModalityVision   = "vision"
	ModalityImage    = "image"
	ModalityVideo    = "video"
	ModalityAudioIn  = "audio_in"
	ModalityAudioOut = "audio_out"
	ModalityEmbed    = "embed"
)

// The sizes of a model, and of a piece of work.
const (
	SizeSmall  = "small"
	SizeMedium = "medium"
	SizeLarge  = "large"
)

// strengthLongContext is what a window of longContextK gives.
const (
	strengthLongContext = "long-context"
	longContextK        = 200
)

// Source says where one field of a profile comes from.
type Source struct {
	Declared bool `json:"declared,omitempty"` // the person said it
	// Rule is what guessed the field, or what was left out of the declared one. It is empty where nothing is known.
	Rule string `json:"rule,omitempty"`
}

// Profile is what an engine can do and costs.
type Profile struct {
	Modalities []string `json:"modalities,omitempty"`
	Strengths  []string `json:"strengths,omitempty"`
	ContextK   int64    `json:"context_k,omitempty"` // thousands of tokens; 0 is unknown and shuts nothing out
	Class      string   `json:"class"`
	// Local reports that nothing leaves the machine or its private network.
	Local bool  `json:"local"`
	Price Price `json:"price"`
	From  From  `json:"from"`
}

// From says of each field of a profile where it comes from. A price says it itself.
type From struct {
	Modalities Source `json:"modalities"`
	Strengths  Source `json:"strengths"`
	ContextK   Source `json:"context_k"`
	Class      Source `json:"class"`
	Local      Source `json:"local"`
}

// ProfileOf gives the profile of an engine: field by field what its settings
// declare, else what the rules guess from its name, model and command, its kind,
// its endpoint and how it is paid for.
func ProfileOf(c Config) Profile {
	var p Profile
	p.Modalities, p.From.Modalities = modalitiesOf(c)
	p.Local, p.From.Local = localOf(c, p.Modalities)
	p.ContextK, p.From.ContextK = contextOf(c)
	p.Strengths, p.From.Strengths = strengthsOf(c, p.ContextK)
	p.Class, p.From.Class = classOf(c)
	p.Price = priceOf(c, p.Local)
	return p
}

// sign is a word that means something in the names of an engine.
type sign struct {
	word  *regexp.Regexp
	means string
	rule  string
}

// word matches one of the words where no letter touches it: a digit may, because
// versions and sizes are written so (wan2.1, gpt-5.4).
func word(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^a-z])(?:` + pattern + `)(?:[^a-z]|$)`)
}

// short matches a word that is a letter and a digit, which no digit may touch.
func short(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^a-z0-9])(?:` + pattern + `)(?:[^a-z0-9]|$)`)
}

// media are the engines that do only what their name says.
var media = []sign{
	{regexp.MustCompile(`whisper`), ModalityAudioIn, "whisper in the name"},
	{word(`tts|kokoro|piper`), ModalityAudioOut, "tts, kokoro or piper in the name"},
	{word(`flux|sdxl|stable-diffusion|comfyui`), ModalityImage, "flux, sdxl, stable-diffusion or comfyui in the name"},
	{word(`wan|hunyuan-video|ltx`), ModalityVideo, "wan, hunyuan-video or ltx in the name"},
	{word(`embed(?:dings?|der)?`), ModalityEmbed, "embed in the name"},
}

// sees are the words that mean vision whatever the kind. Model names end in vl
// (qwen2.5-vl, internvl2); vllm is a server and sees nothing.
var sees = sign{
	regexp.MustCompile(`vl(?:[^a-z]|$)|llava|(?:^|[^a-z])vision(?:[^a-z]|$)`),
	ModalityVision, "vl, vision or llava in the name",
}

// cliSees are the families whose own CLI hands images on. What stands behind an
// endpoint of that name is not known to.
var cliSees = sign{word(`claude|gemini|gpt-4o|gpt-4\.1|gpt-5`), ModalityVision, "claude, gemini, gpt-4o, gpt-4.1 or gpt-5 as a CLI"}

var strengths = []sign{
	{word(`coder|codestral|devstral|codellama|codex`), "code", "coder, codestral, devstral, codellama or codex in the name"},
	{short(`reasoner|r1|o1|o3|qwq|thinking`), "reasoning", "reasoner, r1, o1, o3, qwq or thinking in the name"},
	{regexp.MustCompile(`(?:^|[^a-z])math`), "math", "math in the name"},
	{word(`translation|nllb`), "translation", "translation or nllb in the name"},
}

// described is what the signs are looked for in. Of a path only the file name is a
// word of the person's.
func (c Config) described() string {
	text := string(c.Name) + " " + c.Model + " " + commandName(c.Command)
	return strings.ReplaceAll(strings.ToLower(text), "_", "-")
}

func commandName(command string) string { return strings.TrimSuffix(filepath.Base(command), ".exe") }

// found gives what the signs mean in a text, and their rules.
func found(signs []sign, text string) (means, rules []string) {
	for _, s := range signs {
		if s.word.MatchString(text) {
			means, rules = append(means, s.means), append(rules, s.rule)
		}
	}
	return means, rules
}

// mediaOnly reports whether an engine with these modalities makes or reads media
// and does nothing else.
func mediaOnly(modalities []string) bool {
	return len(modalities) > 0 && !slices.ContainsFunc(modalities, func(m string) bool {
		return m == ModalityText || m == ModalityCode || m == ModalityVision
	})
}

func modalitiesOf(c Config) ([]string, Source) {
	edits := c.Kind != KindHTTP
	if said := c.Declared.Modalities; said != nil {
		kept := slices.DeleteFunc(slices.Clone(said), func(m string) bool { return m == ModalityCode && !edits })
		if len(kept) < len(said) {
			return kept, Source{Declared: true, Rule: "without code: an http engine answers in text and edits nothing"}
		}
		return kept, Source{Declared: true}
	}
	if means, rules := found(media, c.described()); len(means) > 0 {
		return means, Source{Rule: "only " + strings.Join(rules, "; ")}
	}
	out, rules := []string{ModalityText}, []string{"kind " + string(cmp.Or(c.Kind, KindCLI))}
	signs := []sign{sees}
	if edits {
		out = append(out, ModalityCode)
		signs = append(signs, cliSees)
	}
	if _, why := found(signs, c.described()); len(why) > 0 {
		out, rules = append(out, ModalityVision), append(rules, why...)
	}
	return out, Source{Rule: strings.Join(rules, "; ")}
}

func strengthsOf(c Config, contextK int64) ([]string, Source) {
	if c.Declared.Strengths != nil {
		return slices.Clone(c.Declared.Strengths), Source{Declared: true}
	}
	out, rules := found(strengths, c.described())
	if contextK >= longContextK {
		out, rules = append(out, strengthLongContext), append(rules, "a context of 200k or more")
	}
	return out, Source{Rule: strings.Join(rules, "; ")}
}

// window is a context written in a name: -128k, -1m, and [1m] as claude writes it.
var window = regexp.MustCompile(`[-\[]([1-9][0-9]{0,3})(k|m)\b`)

// maxWindowM is from where a number with an m counts parameters (smollm-135m).
const maxWindowM = 10

// contextOf takes a window that is written in the name, or the one of the vendor
// that the settings name as the engine's endpoint. A wrong guess would shut an
// engine out of work that it could do, so the window that a model has at its
// maker's is not taken for a CLI, a gateway or another host. In the name of a
// media engine the number is a picture's width or a sampling rate.
func contextOf(c Config) (int64, Source) {
	if c.Declared.ContextK != nil {
		return *c.Declared.ContextK, Source{Declared: true}
	}
	if means, _ := found(media, c.described()); len(means) > 0 {
		return 0, Source{}
	}
	for _, name := range []string{c.Model, string(c.Name)} {
		if k := windowIn(strings.ToLower(name)); k > 0 {
			return k, Source{Rule: "a window in the name"}
		}
	}
	if m, direct, ok := listed(c); ok && direct && m.ContextWindow >= 1000 {
		return m.ContextWindow / 1000, Source{Rule: listSource}
	}
	return 0, Source{}
}

func windowIn(name string) int64 {
	for _, m := range window.FindAllStringSubmatch(name, -1) {
		n, err := strconv.ParseInt(m[1], 10, 64)
		switch {
		case err != nil: // unreachable: the pattern takes four digits at most
		case m[2] == "k":
			return n
		case n <= maxWindowM:
			return n * 1000
		}
	}
	return 0
}

var (
	smallWord = word(`haiku|mini|nano|small|flash-lite`)
	largeWord = word(`opus|pro|ultra|large|reasoner`)
	largeR1   = short(`r1`)
	// A size in billions, in trillions, or in millions where that is no window.
	sizeIn   = regexp.MustCompile(`(?:^|[^a-z0-9.])([0-9]{1,5}(?:\.[0-9]{1,3})?)(t|b|m)(?:[^a-z0-9]|$)`)
	activeIn = regexp.MustCompile(`(?:^|[^a-z0-9.])a([0-9]{1,5}(?:\.[0-9]{1,3})?)(b)(?:[^a-z0-9]|$)`)
)

// Below smallB billions of parameters a model is small, from largeB on large.
const (
	smallB = 10
	largeB = 70
)

// classOf guesses from the model's name, or from the engine's where it names no
// model. Of a model that uses a part of itself for each token the part counts.
// What says small goes before what says large: an r1 of 7b is a small model.
func classOf(c Config) (string, Source) {
	if c.Declared.Class != "" {
		return c.Declared.Class, Source{Declared: true}
	}
	name := strings.ToLower(cmp.Or(c.Model, string(c.Name)))
	if b, ok := billions(activeIn, name); ok {
		return classOfSize(b), Source{Rule: "active parameters in the name"}
	}
	b, sized := billions(sizeIn, name)
	switch {
	case smallWord.MatchString(name):
		return SizeSmall, Source{Rule: "haiku, mini, nano, small or flash-lite in the name"}
	case sized && b < smallB:
		return SizeSmall, Source{Rule: "fewer than 10B parameters in the name"}
	case largeWord.MatchString(name) || largeR1.MatchString(name):
		return SizeLarge, Source{Rule: "opus, pro, ultra, large, reasoner or r1 in the name"}
	case sized && b >= largeB:
		return SizeLarge, Source{Rule: "70B parameters or more in the name"}
	}
	return SizeMedium, Source{Rule: "nothing in the name says small or large"}
}

func classOfSize(b float64) string {
	switch {
	case b < smallB:
		return SizeSmall
	case b >= largeB:
		return SizeLarge
	}
	return SizeMedium
}

// billions reads how many billions of parameters a name speaks of.
func billions(pattern *regexp.Regexp, name string) (float64, bool) {
	for _, m := range pattern.FindAllStringSubmatch(name, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		switch {
		case err != nil: // unreachable: the pattern takes digits and one dot
		case m[2] == "t":
			return n * 1000, true
		case m[2] == "b":
			return n, true
		case n > maxWindowM:
			return n / 1000, true
		}
	}
	return 0, false
}

// providerLiteLLM is the other gateway whose own address says nothing of where a
// request ends.
const providerLiteLLM = "litellm"

// gateway reports whether somebody else's models stand behind the endpoint.
func (c Config) gateway() bool {
	v := c.Vendor()
	return v == ProviderOmniRoute || v == providerLiteLLM
}

// endpoints returns where the model is asked: base_url, and what the environment
// of a CLI points it to.
func (c Config) endpoints() []string {
	out := []string{c.BaseURL}
	for name, value := range c.Env {
		if strings.HasSuffix(name, "_BASE_URL") || strings.HasSuffix(name, "_API_BASE") {
			out = append(out, value)
		}
	}
	return distinct(out)
}

// localOf asks first how the engine is paid for and then where it is: an address
// of this machine can be a proxy in front of somebody's paid API.
func localOf(c Config, modalities []string) (bool, Source) {
	at := c.endpoints()
	elsewhere := func(base string) bool { return !LocalURL(base) }
	switch {
	case c.Declared.Local != nil:
		return *c.Declared.Local, Source{Declared: true}
	case c.Paid == PaidLocal:
		return true, Source{Rule: `paid = "local"`}
	case c.gateway():
		return false, Source{Rule: "a gateway: requests go on from there"}
	case c.Paid != "":
		return false, Source{Rule: "paid for, so somebody's service"}
	case slices.ContainsFunc(at, elsewhere):
		return false, Source{Rule: "an endpoint elsewhere"}
	case len(at) > 0:
		return true, Source{Rule: "an endpoint on this machine or network"}
	case mediaOnly(modalities) && len(c.secrets()) == 0 && c.KeyRef == "":
		return true, Source{Rule: "a media CLI without endpoint and key"}
	}
	return false, Source{Rule: "an agent CLI calls out"}
}
