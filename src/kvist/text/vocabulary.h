// The words of ProseStream, private to it. A change here changes every seeded text and so every recorded run.
#pragma once

#include <string_view>

namespace kvist::text::vocabulary {

using Word = std::string_view;

inline constexpr Word kNames[] = {
    "Agnes", "Anders", "Astrid", "Bertil", "Birgit", "Clara", "Daniel", "Edith", "Elias",  "Ellen",
    "Emil",  "Erik",   "Greta",  "Gustav", "Hanna",  "Hedda", "Henrik", "Ida",   "Ingrid", "Jakob",
    "Johan", "Karin",  "Klara",  "Lars",   "Lena",   "Linus", "Maja",   "Marta", "Nils",   "Olga",
    "Otto",  "Ragna",  "Sigrid", "Signe",  "Soren",  "Stina", "Sven",   "Tilda", "Tomas",  "Viktor",
};

inline constexpr Word kPeople[] = {
    "archivist", "baker",     "boatman",  "captain",  "carpenter", "child",   "clerk",     "cook",
    "doctor",    "engineer",  "farmer",   "ferryman", "gardener",  "guest",   "innkeeper", "librarian",
    "mason",     "merchant",  "miller",   "musician", "neighbour", "nurse",   "painter",   "potter",
    "printer",   "sailor",    "scholar",  "shepherd", "smith",     "student", "surveyor",  "tailor",
    "teacher",   "traveller", "watchman", "weaver",   "widow",     "writer",
};

inline constexpr Word kThings[] = {
    "account",  "almanac", "anchor",     "apple",    "barrel",   "basket",  "bell",   "blanket",   "boat",   "book",
    "bottle",   "bridge",  "bucket",     "candle",   "carpet",   "cart",    "chair",  "chart",     "clock",  "coat",
    "coin",     "compass", "cup",        "diary",    "door",     "drawing", "engine", "fence",     "flute",  "gate",
    "hammer",   "harvest", "instrument", "iron key", "kettle",   "ladder",  "lamp",   "lantern",   "ledger", "letter",
    "loaf",     "loom",    "machine",    "map",      "message",  "mirror",  "net",    "oar",       "page",   "painting",
    "parcel",   "pencil",  "plan",       "portrait", "question", "record",  "ring",   "roof",      "rope",   "sail",
    "secret",   "sketch",  "song",       "spade",    "stone",    "story",   "table",  "telescope", "ticket", "tower",
    "umbrella", "violin",  "wall",       "wheel",    "window",
};

inline constexpr Word kPlaces[] = {
    "attic",     "bakery",   "barn",    "bay",     "cellar",     "chapel", "church",  "cliff",   "coast",    "corner",
    "courtyard", "crossing", "ferry",   "field",   "forest",     "garden", "glacier", "harbour", "hill",     "hospital",
    "island",    "kitchen",  "lake",    "library", "lighthouse", "marsh",  "market",  "meadow",  "mill",     "mountain",
    "museum",    "orchard",  "park",    "path",    "quay",       "river",  "road",    "school",  "shore",    "shop",
    "square",    "stable",   "station", "theatre", "town hall",  "valley", "village", "wharf",   "workshop", "yard",
};

inline constexpr Word kAdjectives[] = {
    "ancient",  "bitter",  "blue",     "bright",  "broad",     "broken",  "calm",     "careful",  "cheerful",
    "clear",    "clever",  "cold",     "crooked", "curious",   "dark",    "deep",     "distant",  "dusty",
    "early",    "empty",   "familiar", "famous",  "forgotten", "fragile", "friendly", "frozen",   "gentle",
    "golden",   "green",   "grey",     "heavy",   "hidden",    "honest",  "hungry",   "iron",     "kind",
    "late",     "little",  "lonely",   "long",    "lost",      "modest",  "narrow",   "northern", "old",
    "ordinary", "pale",    "patient",  "plain",   "proud",     "quiet",   "rare",     "red",      "restless",
    "rough",    "round",   "rusty",    "secret",  "sharp",     "silent",  "simple",   "slow",     "small",
    "steep",    "strange", "stubborn", "sudden",  "tall",      "tired",   "uneven",   "warm",     "weathered",
    "white",    "wide",    "wooden",   "young",
};

inline constexpr Word kTransitive[] = {
    // past tense, with an object
    "admired",   "borrowed",   "bought",     "built",    "carried",  "chose",    "cleaned",  "copied",   "counted",
    "described", "discovered", "drew",       "examined", "found",    "gathered", "gave up",  "guarded",  "held",
    "hid",       "ignored",    "kept",       "left",     "lifted",   "lost",     "measured", "mended",   "missed",
    "moved",     "noticed",    "offered",    "opened",   "painted",  "praised",  "prepared", "promised", "read",
    "received",  "recognised", "remembered", "repaired", "returned", "saved",    "sold",     "studied",  "tested",
    "took",      "traded",     "trusted",    "used",     "wanted",   "watched",  "wrapped",
};

inline constexpr Word kIntransitive[] = {
    // past tense, without an object
    "agreed",      "arrived",     "began again", "came home", "climbed",     "disagreed", "dreamed",
    "fell asleep", "grew quiet",  "hesitated",   "laughed",   "left",        "listened",  "looked up",
    "moved on",    "nodded",      "paused",      "played",    "rested",      "returned",  "sang",
    "sat down",    "slept",       "smiled",      "spoke",     "stood still", "stopped",   "talked",
    "travelled",   "turned back", "waited",      "walked",    "wandered",    "woke",      "worked",
};

inline constexpr Word kSaid[] = {
    // take a clause with "that"
    "admitted", "believed", "claimed", "explained", "feared", "guessed", "heard",     "hoped",   "insisted",   "knew",
    "learned",  "realised", "replied", "reported",  "said",   "saw",     "suspected", "thought", "understood", "wrote",
};

inline constexpr Word kAdverbs[] = {
    "again",    "almost",   "at once",  "carefully", "clearly",  "easily", "eagerly", "finally", "gladly",
    "gently",   "honestly", "proudly",  "later",     "never",    "often",  "once",    "openly",  "patiently",
    "politely", "quickly",  "quietly",  "rarely",    "secretly", "seldom", "simply",  "slowly",  "softly",
    "soon",     "still",    "suddenly", "together",  "twice",    "warmly", "calmly",  "bravely",
};

inline constexpr Word kPrepositions[] = {
    "across", "along", "at", "before", "behind", "beside", "beyond", "near", "outside", "past", "towards", "under",
};

inline constexpr Word kOpenings[] = {
    "After a while",    "After supper",      "All that winter",  "As it happened",   "At dawn",
    "At first",         "At midnight",       "At that moment",   "Before the storm", "By then",
    "During the night", "Early one morning", "Every spring",     "For many years",   "From that day on",
    "In the afternoon", "In the end",        "In those years",   "Last autumn",      "Later that week",
    "Long ago",         "Not long after",    "On market day",    "On the third day", "One evening",
    "Some time later",  "That same hour",    "The next morning", "Towards noon",     "When the snow melted",
};

inline constexpr Word kConjunctions[] = {
    "and", "and then", "because", "before", "but", "so", "until", "when", "while", "yet",
};

inline constexpr Word kReasons[] = {
    "the light was fading",     "the rain had stopped", "nobody had asked",       "there was no other way",
    "the wind had turned",      "it was nearly winter", "the price was too high", "the ink had faded",
    "the bells were ringing",   "the ice was thin",     "time was short",         "the road was closed",
    "the fire was burning low", "the tide was rising",  "supper was ready",
};

/// Last words for a text that must end after an exact number of bytes: kLastWords[i] has i + 3 letters.
inline constexpr Word kLastWords[] = {
    "too",
    "soon",
    "again",
    "slowly",
    "quietly",
    "together",
    "carefully",
    "cheerfully",
    "continually",
    "unexpectedly",
    "instinctively",
    "affectionately",
    "as well as ever",
    "once and for all",
    "one after another",
    "a little at a time",
    "as soon as possible",
    "without another word",
};

}  // namespace kvist::text::vocabulary
