"""The frames from which pronouns.py writes sentences about two nouns: what happens between them, and which of them "it" is."""

from __future__ import annotations

__all__ = ["CONCESSIONS", "FRAMES", "RESULTS"]

# Frames of two nouns, A and B: what happens, and why, for the sake of A or for the sake of B.
# {dB} is de + B; {a}, {est}, {sest}, {était} and {e} agree with A where A comes first, else with the person P.
# {nt}, {ent} and {s} are the endings of a verb in the present.
FRAMES = """
{A} swallowed {B}|{A} {a} avalé {B}|animal hunter|food|hungry;starving;greedy;very hungry|delicious;juicy;ripe;sweet;fresh;tiny
{A} ignored {B}|{A} {a} ignoré {B}|animal hunter|food|sick;sad;sleepy;thirsty;tired;worried|rotten;dry;bitter;raw;spicy;too hard;sour
{A} sniffed {B}|{A} {a} reniflé {B}|animal|food clothes|hungry;curious;worried;lost|strange;dirty;rotten
{A} stayed in {B}|{A} {est} resté{e} dans {B}|animal hunter|shelter|cold;afraid;sick;injured;exhausted;scared|warm-place;quiet;safe;big;clean
{A} ran away from {B}|{A} {sest} enfui{e} {dB}|animal hunter|shelter|afraid;hungry;thirsty;nervous;cold|dirty;noisy;on fire;dangerous;flooded;too small
{A} drank {B}|{A} {a} bu {B}|animal hunter|drink|thirsty;very thirsty;hot;sick|fresh;delicious;sweet;cold-thing
{A} lay down near {B}|{A} {sest} couché{e} près {dB}|animal hunter|cover seat|tired;hot;sleepy;sick;exhausted|big;warm-place;comfortable
{A} didn't swim across {B}|{A} {na} pas traversé {B} à la nage|animal|water|weak;afraid;exhausted;too young;injured|too deep;dirty;icy;dangerous;frozen;rough
{A} didn't jump over {B}|{A} {na} pas sauté par-dessus {B}|animal hunter|water road|too tired;tired;too weak;too fat;too old;injured;afraid|too wide;wide;too deep;very wide;dangerous
{A} didn't walk along {B}|{A} {na} pas marché le long {dB}|animal hunter|road water|too tired;tired;exhausted;sleepy;too old;hungry|too long;muddy;too dark;flooded;too dangerous;icy
{A} didn't go through {B}|{A} {na} pas franchi {B}|animal hunter|road land|too tired;too shy;sick;thirsty;too young|too wide;too long;huge;crowded;too noisy;on fire
{A} slept on {B}|{A} {a} dormi sur {B}|animal|seat clothes|tired;cold;sick;old;sleepy|warm-place;comfortable;clean;dry
{A} hid behind {B}|{A} {sest} caché{e} derrière {B}|animal hunter|cover|afraid;shy;scared;young;ashamed|big;tall;wide;close
{A} chased {B}|{A} {a} poursuivi {B}|hunter|prey|hungry;starving;angry;fierce;very hungry|injured;alone;slow;fat;weak;lost
{A} let {B} go|{A} {a} laissé partir {B}|hunter|prey|tired;old;lazy;sleepy;kind|ill;too fast;tiny;too small
{A} looked after {B}|{A} {sest} occupé{e} {dB}|animal|prey|brave;strong;kind;happy|young;cold;hungry;lost;thirsty;afraid;injured
{A} rested beside {B}|{A} {sest} reposé{e} à côté {dB}|animal hunter|water land|thirsty;exhausted;hot;lost;injured|calm;quiet;beautiful;safe
{A} skidded on {B}|{A} {a} dérapé sur {B}|vehicle|road|too fast;old;overheated;too heavy|icy;wet;slippery;muddy
{A} slowed down on {B}|{A} {a} ralenti sur {B}|vehicle|road|damaged;out of petrol;overheated;too full|flooded;dark;dangerous;narrow;crowded
{A} turned back before {B}|{A} {a} fait demi-tour avant {B}|vehicle|road land|damaged;too slow;out of petrol;too wide|blocked;dangerous;closed;flooded;on fire
{A} {was} parked in front of {B}|{A} {était} garé{e} devant {B}|vehicle|place|broken down;too wide;out of petrol;empty|closed;famous;full;locked
{A} sank in {B}|{A} {a} coulé dans {B}|vessel|water|heavy;damaged;too old;too full|deep;rough;dangerous;icy
{A} stayed far from {B}|{A} {est} resté{e} loin {dB}|vessel vehicle|water land|broken down;too slow;fragile|dangerous;frozen;flooded;on fire
{P} replaced {A} with {B}|{P} {a} remplacé {A} par {B}|device vehicle clothes seat tool instrument|=|broken;old;ugly;worn out;damaged;useless|new;modern;solid;light;practical;cheap;beautiful
{P} chose {A} instead of {B}|{P} {a} choisi {A} plutôt que {B}|device vehicle clothes seat instrument jewel|=|cheap;beautiful;elegant;solid;light;new|too expensive;ugly;broken;too old;too heavy;worn out
{P} exchanged {A} for {B}|{P} {a} échangé {A} contre {B}|device clothes jewel tool instrument vehicle|=|too small;torn;broken;too big;useless|shiny;magnificent;precious;perfect;new
{P} wiped {A} with {B}|{P} {a} essuyé {A} avec {B}|seat furniture|clothes|dirty;wet;dusty;sticky|clean;dry;old;thick
{P} carried {A} in {B}|{P} {a} transporté {A} dans {B}|instrument jewel food|container|fragile;heavy;precious;small|solid;big;light;empty;practical
{P} forgot {A} in {B}|{P} {a} oublié {A} dans {B}|clothes jewel tool text|room vehicle|small;old;well hidden;useless|dark;full;dirty;dusty
{P} cooked {A} without {B}|{P} {a} préparé {A} sans {B}|food|food|salty;spicy;delicious;sweet|rotten;too bitter;too dry;frozen
{P} read {A} before {B}|{P} {a} lu {A} avant {B}|text|=|short;urgent;easy;interesting;important|too long;difficult;boring;complicated
{P} visited {A} before {B}|{P} {a} visité {A} avant {B}|place|=|close;famous;magnificent;free|far away;closed;crowded;ruined
{P} didn't open {B} with {A}|{P} {na} pas ouvert {B} avec {A}|tool|container|broken;rusty;too thick;worn out|already open;fragile;precious;torn
{P} heard {A} from {B}|{P} {a} entendu {A} depuis {B}|instrument force|room|loud;close;powerful|open;silent;quiet
{P} hid {A} under {B}|{P} {a} caché {A} sous {B}|jewel text container|seat furniture|precious;beautiful;stolen;small|big;heavy;wide;low
{P} sold {A} and bought {B}|{P} {a} vendu {A} et acheté {B}|vehicle instrument device jewel|=|old;useless;too expensive;broken|new;cheap;modern;magnificent;practical
{P} cleaned {A} before {B}|{P} {a} nettoyé {A} avant {B}|room seat vehicle|room furniture|very dirty;sticky;dusty;small|locked;too big;full;closed
{A} didn't dry near {B}|{A} {na} pas séché près {dB}|clothes|heater|too thick;too wet;frozen|broken;switched off;too small;cold-thing
{A} burned in {B}|{A} {a} brûlé dans {B}|food|heater|thin;dry;too small|too hot-thing;broken;old
{A} scratched {B}|{A} {a} rayé {B}|tool jewel|furniture device|pointed;hard;rusty;heavy|fragile;delicate;new
{A} leaned against {B}|{A} {était} appuyé{e} contre {B}|tool instrument|cover furniture|heavy;unstable;long;fragile|solid;close;big
{A} didn't protect us from {B}|{A} ne nous {a} pas protégés {dB}|shield|weather|torn;too small;too light;old;broken|violent;too strong;icy;sudden
{A} destroyed {B}|{A} {a} détruit {B}|force|place shelter|violent;powerful;huge;sudden|old;fragile;badly built;isolated;made of wood;too close
{A} spared {B}|{A} {a} épargné {B}|force|place land|weak;slow;short|far away;solid;isolated;well hidden
{A} explained {B} badly|{A} {a} mal expliqué {B}|talk|matter|too short;vague;unclear;boring;too long|complicated;recent;strange;absurd;difficult
{A} changed {B}|{A} {a} changé {B}|matter|event|important;recent;urgent;unfair|too long;boring;too expensive
{A} didn't start {B}|{A} {na} pas fait démarrer {B}|starter|vehicle vessel|dead;old;too weak;wet|frozen;damaged;rusty;too old
{A} didn't grow in {B}|{A} {na} pas poussé dans {B}|plant|shelter container land|delicate;too young;sick;fragile|too dark;too dry;too cold-thing;too small
{A} fell into {B}|{A} {est} tombé{e} dans {B}|jewel food tool clothes|bucket water container|small;slippery;round;heavy|open;deep;close;wide
{A} smelled better than {B}|{A} {sentait} meilleur que {B}|food drink plant|=|fresh;sweet;ripe|rotten;old;dirty
{A} {was} more popular than {B}|{A} {avait} plus de succès que {B}|event place text|=|funny;magnificent;cheap;interesting;free;famous|too long;boring;too expensive;sad-thing;far away
{A} overlook{s} {B}|{A} domine{nt} {B}|place|land water|tall;huge;high|low;small;close
{A} {dont} heat {B}|{A} ne chauffe{nt} pas {B}|heater|room shelter|too small;broken;old;switched off|too big;open;huge
{A} {dont} carry {B}|{A} ne transporte{nt} pas {B}|vehicle vessel|furniture instrument container|too small;too old;full|too heavy;fragile;too wide;too long
{A} frighten{s} {B}|{A} effraie{nt} {B}|hunter force|prey|huge;strong;dangerous;loud|young;weak;alone;small;injured
{A} {dont} protect {B}|{A} ne protège{nt} pas {B}|shield cover|jewel instrument text device|too small;broken;old;too far away|fragile;too big;delicate;too long
{A} replace{s} {B}|{A} remplace{nt} {B}|device vehicle tool seat|=|new;modern;cheap;practical|broken;old;worn out;useless;too expensive
{A} avoid{s} {B}|{A} évite{nt} {B}|animal hunter|food water land shelter|afraid;sick;shy;lazy|rotten;dirty;dangerous;icy
{A} wait{s} outside {B}|{A} attend{ent} devant {B}|animal|shelter place|hungry;shy;afraid;nervous;lost;thirsty|closed;full;locked;too dark;too small
{P} couldn't squeeze {A} into {B}|{P} {na} pas pu faire entrer {A} dans {B}|thing instrument furniture|container vehicle|too big;too wide;bulky;too rigid;huge;too long|too small;too narrow;already full;tiny;locked
{A} stuck out of {B}|{A} dépass{ait} {dB}|thing clothes tool|container|too long;too big;bulky;very long|too small;too short;too full;tiny
We had no room for {A} in {B}|Nous n'avions pas de place pour {A} dans {B}|thing furniture instrument load|vehicle room container|too big;huge;bulky;too wide;enormous|too small;cramped;full;already full;tiny
{A} got jammed in {B}|{A} {sest} coincé{e} dans {B}|thing furniture load|opening|too wide;bulky;too thick;too big;huge|too narrow;too small;tiny;too low
{A} didn't slide through {B}|{A} ne pass{ait} pas par {B}|furniture thing load|opening|too wide;too big;too tall;bulky;too rigid|too narrow;too small;too low;blocked;closed
{P} couldn't push {A} through {B}|{P} {na} pas pu faire passer {A} par {B}|furniture load vehicle|opening|too wide;too big;huge;bulky;too long|too narrow;too small;locked;too low;cramped
{A} couldn't contain {B}|{A} ne pouv{ait} pas contenir {B}|container|thing instrument load|too small;tiny;already full;too narrow;torn|too big;huge;bulky;too long;enormous
{A} wouldn't close over {B}|{A} ne se ferm{ait} pas sur {B}|container|thing clothes instrument|too small;too full;warped;too narrow|too big;too thick;bulky;too long
{P} hid {A} inside {B}|{P} {a} caché {A} à l'intérieur {dB}|jewel text|container furniture|small;thin;tiny;precious;stolen|big;deep;locked;solid;empty
{A} disappeared into {B}|{A} {a} disparu dans {B}|jewel tool|container bucket|tiny;small;thin;round|deep;dark;huge;vast
{P} pulled {A} from {B}|{P} {a} tiré {A} {dB}|clothes text tool|container|useful;wet;beautiful;new|too full;on fire;too small;muddy
{P} removed {A} from {B}|{P} {a} retiré {A} {dB}|food|container heater|rotten;ready;raw;overripe;disgusting|full;rusty;too small;on fire
{P} left {A} outside {B}|{P} {a} laissé {A} devant {B}|furniture vehicle vessel|shelter room|wet;too wide;bulky;broken|full;locked;too small;closed;cramped
{P} moved {A} into {B}|{P} {a} déplacé {A} dans {B}|furniture instrument device|room shelter|fragile;precious;too heavy;ugly|empty;vast;safe;dry;clean
{A} didn't pass under {B}|{A} ne pass{ait} pas sous {B}|vehicle vessel beast|overhead|too tall;too high;huge;too big|too low;low;damaged;dangerous
{A} couldn't get over {B}|{A} {na} pas pu passer par-dessus {B}|beast hunter animal|upright|tired;too old;lame;too fat;injured|too high;very high;high;too solid
{A} couldn't leap across {B}|{A} {na} pas pu sauter par-dessus {B}|beast hunter animal|trench water|tired;too old;lame;too fat;afraid;clumsy|too wide;very wide;wide;too deep
{A} crawled under {B}|{A} {a} rampé sous {B}|animal hunter prey|upright|small;thin;scared;agile;clever|too high;closed;jammed;very high
{P} slipped {A} under {B}|{P} {a} glissé {A} sous {B}|text jewel cloth|furniture seat|flat;thin;stolen;small|unstable;high;crooked;big
{P} couldn't stretch {A} over {B}|{P} {na} pas pu tendre {A} sur {B}|cloth|covered|too small;too short;torn;tiny;too rigid|too big;too wide;huge;too long;enormous
{P} couldn't wrap {A} in {B}|{P} {na} pas pu envelopper {A} dans {B}|thing instrument load|cloth|too big;bulky;huge;too long|too small;torn;too short;tiny;too rigid
{A} {dont} conceal {B}|{A} ne dissimule{nt} pas {B}|cloth|covered furniture|too small;too thin;too short;transparent;torn;too narrow|too big;too wide;huge;too tall;bulky
{A} {dont} shelter {B}|{A} n'abrite{nt} pas {B}|cover shield|covered seat plant|too small;too low;damaged|too big;too far away;too wide;huge
{A} went twice around {B}|{A} fais{ait} deux fois le tour {dB}|link|load cover|long;very long;flexible|small;thin;tiny;narrow
{A} stopped short of {B}|{A} s'arrêt{ait} avant {B}|road|place harbour|too short;blocked;flooded|too far away;far away;isolated
{A} didn't stretch as far as {B}|{A} n'all{ait} pas jusqu'{aB}|link cloth|covered load|too short;short;too rigid|too far away;far away
{P} couldn't reach {B} with {A}|{P} {na} pas pu atteindre {B} avec {A}|tool link missile|breakable overhead|too short;too flexible;broken;too heavy|too far away;too high;far away;very high
{A} gave way under {B}|{A} {a} cédé sous {B}|support seat|load|too weak;fragile;rusty;too thin;rotten;worn out|too heavy;huge;very heavy;bulky;enormous
{A} couldn't bear {B}|{A} ne pouv{ait} pas porter {B}|support seat furniture|load|too weak;fragile;rotten;too thin;unstable|too heavy;enormous;very heavy;full
{A} collapsed under {B}|{A} {sest} effondré{e} sous {B}|furniture shelter|load ground|old;fragile;badly built;rotten;dilapidated|too heavy;heavy;wet;very heavy
{P} couldn't lift {A} with {B}|{P} {na} pas pu soulever {A} avec {B}|load furniture|link support|too heavy;bulky;stuck;enormous|too weak;too thin;worn out;too short;broken
{P} hung {A} on {B}|{P} {a} accroché {A} {aB}|clothes jewel cloth|support|light;wet;beautiful;elegant|solid;close;high;robust
{A} came loose from {B}|{A} {sest} détaché{e} {dB}|load|support|too heavy;badly fixed;very heavy;bulky|rusty;rotten;worn out;too thin
{A} slid off {B}|{A} {a} glissé {dB}|thing clothes text food|seat furniture|round;smooth;wet;badly fixed|unstable;too small;crooked;sloping
{A} crushed {B}|{A} {a} écrasé {B}|load vehicle beast|breakable food toast|heavy;huge;enormous;very heavy|fragile;soft;too thin;delicate;tiny;hollow
{A} dented {B}|{A} {a} cabossé {B}|missile tool|vehicle container|hard;heavy;pointed;fast|soft;too thin;fragile;hollow
{A} went right through {B}|{A} {a} transpercé {B}|missile|clothes cloth container|pointed;fast;hard;heavy|thin;soft;worn out;too thin
{A} didn't break {B}|{A} {na} pas cassé {B}|missile|breakable furniture|too light;soft;hollow;too small;slow|solid;too thick;robust;well hidden
{A} split {B} in two|{A} {a} fendu {B} en deux|missile blade|breakable furniture|heavy;hard;solid;fast|fragile;thin;old;delicate
{P} broke {A} with {B}|{P} {a} cassé {A} avec {B}|breakable|missile tool|fragile;too thin;delicate;ugly|heavy;hard;pointed;solid
{A} ruined {B}|{A} {a} abîmé {B}|weather force|plant shelter|violent;icy;sudden;too strong|fragile;delicate;badly built;old
{A} couldn't slice {B}|{A} n'arriv{ait} pas à trancher {B}|blade|food|worn out;rusty;too small;defective|too hard;frozen;too thick;soft
{A} spat out {B}|{A} {a} recraché {B}|animal hunter|food|sick;suspicious;scared;restless|bitter;rotten;too hot-thing;tasteless;spicy;disgusting
{A} devoured {B}|{A} {a} dévoré {B}|animal hunter|food toast|starving;hungry;greedy;very hungry|delicious;tasty;fresh;juicy;sweet
{A} refused {B}|{A} {a} refusé {B}|animal hunter|food drink|sick;suspicious;stubborn;sad|tasteless;bitter;lukewarm;disgusting;strange
{A} buried {B}|{A} {a} enterré {B}|animal hunter|food clothes|cautious;suspicious;clever;jealous|smelly;dry;too big;dirty
{A} couldn't bite into {B}|{A} n'arriv{ait} pas à mordre dans {B}|animal|food toast|too young;too old;weak;sick|too hard;frozen;too thick;dry
{A} stole {B}|{A} {a} volé {B}|animal hunter|food|hungry;clever;brave;starving|tasty;fresh;juicy;ripe
{A} licked {B}|{A} {a} léché {B}|animal beast|food container|thirsty;curious;hungry;greedy|sweet;salty;sticky;greasy
{A} attacked {B}|{A} {a} attaqué {B}|hunter|prey beast|aggressive;starving;hungry;fierce;jealous|injured;alone;weak;lame;too close
{A} didn't see {B}|{A} {na} pas vu {B}|hunter animal|prey insect|asleep;tired;too old;distracted|well hidden;too far away;tiny;silent
{A} didn't hear {B}|{A} {na} pas entendu {B}|hunter|prey|deaf;asleep;old;distracted|silent;cautious;too far away;agile
{A} couldn't catch up with {B}|{A} {na} pas pu rattraper {B}|hunter|prey beast|tired;too old;too slow;lame|fast;agile;too fast;clever
{A} distrusted {B}|{A} se méfi{ait} {dB}|prey animal|hunter stinger|young;cautious;shy;weak;nervous|aggressive;fierce;wild;dangerous;enormous
{A} protected {B}|{A} {a} protégé {B}|beast hunter|prey|brave;strong;kind;generous|young;weak;alone;lost;tiny
{A} gave up pulling {B}|{A} {a} renoncé à tirer {B}|beast|towed|exhausted;thirsty;lame;stubborn;lazy|too heavy;stuck;bulky;broken
{A} couldn't drag {B}|{A} {na} pas pu traîner {B}|beast vehicle|towed load|too weak;too old;too slow|too heavy;stuck;frozen;enormous
{A} overturned {B}|{A} {a} renversé {B}|beast hunter|furniture container seat|angry;nervous;strong;clumsy;aggressive|light;unstable;fragile;too high;empty
{A} came out of {B}|{A} {est} sorti{e} {dB}|animal hunter beast|shelter|hungry;thirsty;curious;restless|flooded;on fire;dirty;too dark;cramped
{A} went back into {B}|{A} {est} retourné{e} dans {B}|animal hunter beast|shelter|tired;cold;sleepy;scared;injured|warm-place;safe;quiet;cosy
{A} refused to go into {B}|{A} {a} refusé d'aller dans {B}|animal hunter beast|shelter room water|nervous;stubborn;scared;suspicious|dark;too dark;icy;dirty;too small
{A} moved away from {B}|{A} {sest} éloigné{e} {dB}|animal hunter beast|water land|afraid;hungry;restless;cautious|contaminated;dangerous;dry;noisy;on fire
{A} didn't climb onto {B}|{A} {nest} pas monté{e} sur {B}|animal|furniture seat towed|shy;too fat;tired;cautious;lame|unstable;too high;slippery;fragile
{A} slipped on {B}|{A} {a} glissé sur {B}|animal beast|road slope|tired;clumsy;old;distracted|icy;wet;smooth;slippery
{A} couldn't take {B}|{A} {na} pas pu emprunter {B}|vehicle|road|too wide;too heavy;broken down;out of petrol|too narrow;blocked;closed;flooded;bumpy
{A} didn't make it up {B}|{A} {na} pas réussi à monter {B}|vehicle towed|slope|too old;too heavy;too slow;defective|too high;icy;too long;slippery
{A} got bogged down in {B}|{A} {sest} enlisé{e} dans {B}|vehicle towed|ground|too heavy;too low;heavy;too slow|wet;soft;deep;too soft
{A} drove past {B} without stopping|{A} {est} passé{e} devant {B} sans s'arrêter|vehicle|place|late;already full;too fast;empty|closed;deserted;on fire;too far away
{A} couldn't dock in {B}|{A} {na} pas pu accoster dans {B}|vessel|harbour|too wide;damaged;too heavy;too long|too narrow;frozen;closed;too dangerous;crowded
{A} floated on {B}|{A} flott{ait} sur {B}|vessel|water|light;made of wood;empty;hollow|calm;deep;quiet;salty
{A} acquired {B}|{A} {a} acquis {B}|institution|place|rich;prosperous;ambitious;powerful|cheap;famous;magnificent;empty
{A} got rid of {B}|{A} {sest} débarrassé{e} {dB}|institution|vehicle place device|short of money;poor;desperate;divided|useless;dilapidated;too expensive;broken
{A} rebuilt {B}|{A} {a} reconstruit {B}|institution|place|rich;generous;powerful;ambitious|ruined;damaged;dilapidated;famous
{A} dropped {B} for good|{A} {a} abandonné {B} pour de bon|institution|proposal|poor;short of money;cautious;divided|too expensive;useless;too complicated;absurd
{A} turned down {B}|{A} {a} refusé {B}|institution|proposal|cautious;suspicious;divided;short of money|unfair;vague;absurd;too expensive;incomplete
{A} accepted {B}|{A} {a} accepté {B}|institution|proposal|poor;weak;generous;desperate|reasonable;clear;perfect;fair
{P} liked {A} more than {B}|{P} {a} plus aimé {A} que {B}|event text|=|funny;short;interesting;surprising|too long;boring;sad-thing;complicated
{P} moved from {A} to {B}|{P} {a} quitté {A} pour {B}|dwelling|=|noisy;too small;cramped;too expensive;dilapidated;icy|quiet;comfortable;cosy;sunny;luxurious
{P} put away {A} and took out {B}|{P} {a} rangé {A} et sorti {B}|tool clothes instrument device|=|useless;dirty;broken;too fragile;too heavy|practical;clean;light;solid;new
{P} washed {A} in {B}|{P} {a} lavé {A} dans {B}|clothes cloth|bucket|dirty;muddy;stained;sticky;greasy|deep;close;big;empty
{P} scrubbed {A} with {B}|{P} {a} frotté {A} avec {B}|furniture seat container|cleaner|greasy;dirty;stained;sticky;dusty|efficient;new;practical;cheap
{A} didn't get {B} out|{A} {na} pas fait disparaître {B}|cleaner|mark|too weak;inefficient;too dry;worn out|too thick;tenacious;deep;too big
{P} added {A} to {B}|{P} {a} ajouté {A} {aB}|spread|food drink|sweet;delicious;cheap;tasty|tasteless;too bitter;sour;disgusting
{P} couldn't spread {A} on {B}|{P} {na} pas pu étaler {A} sur {B}|paste|toast|too hard;frozen;too thick;sticky|too fragile;crumbly;tiny;too thin
{P} drank {A} from {B}|{P} {a} bu {A} dans {B}|drink|mug|delicious;cold-thing;sweet;tasty|clean;practical;close;beautiful
{P} stored {A} in {B}|{P} {a} conservé {A} dans {B}|food drink|container mug|fresh;delicious;expensive;too sweet|clean;empty;solid;practical
{A} didn't illuminate {B}|{A} n'éclair{ait} pas {B}|light|room road|too weak;broken;too small;switched off;unplugged|too big;too long;vast;too wide
{A} dried quickly in {B}|{A} {a} vite séché dans {B}|clothes cloth|room land|thin;light;small;clean|hot-thing;sunny;warm-place;dry
{A} attracted {B}|{A} {a} attiré {B}|food spread toast|insect animal|sweet;tasty;sticky;delicious|hungry;greedy;starving;curious
{A} landed on {B}|{A} {sest} posé{e} sur {B}|insect|plant food seat|tired;hungry;curious;lost|sweet;colourful;sticky;close
{A} stung {B}|{A} {a} piqué {B}|stinger|animal beast|aggressive;nervous;angry;scared|too close;careless;restless;slow
{A} plugged {B}|{A} bouch{ait} {B}|load thing vehicle|opening|huge;bulky;too wide;enormous|narrow;too small;low;cramped
{A} flooded {B}|{A} {a} inondé {B}|water|room land dwelling|rough;too high;too full|too low;too close;badly built
{A} take{s} up too much space in {B}|{A} occupe{nt} trop de place dans {B}|furniture instrument load|room vehicle|huge;bulky;too wide;too big|too small;narrow;cramped;tiny
{A} hide{s} in {B}|{A} se cache{nt} dans {B}|animal prey|shelter|shy;scared;young;cold;injured|dark;quiet;deep;safe;vast
{A} sink{s} into {B}|{A} s'enfonce{nt} dans {B}|load vehicle beast|ground|heavy;too heavy;huge;enormous|soft;wet;deep;too soft
{A} {dont} carry the weight of {B}|{A} ne supporte{nt} pas {B}|support seat|load|too weak;fragile;rotten;too thin;rusty|too heavy;very heavy;enormous;bulky
{A} {dont} tempt {B}|{A} ne tente{nt} pas {B}|food|animal hunter prey|tasteless;dry;frozen;bitter;overripe|sick;cautious;tired;suspicious
{P} picked up {A} from {B}|{P} {a} ramassé {A} sur {B}|clothes text tool|seat furniture road|precious;useful;light;beautiful|unstable;too small;muddy;sloping
{P} stopped using {A} on {B}|{P} {a} cessé d'utiliser {A} sur {B}|cleaner|furniture seat instrument|too hard;inefficient;worn out;too expensive|fragile;delicate;precious;already clean
{A} stained {B}|{A} {a} taché {B}|spread drink|clothes cloth|greasy;sticky;too hot-thing|white;clean;too thin
{A} didn't melt {B}|{A} {na} pas fait fondre {B}|heater light|frozen|too weak;switched off;broken;too far away|too cold-thing;too thick;too hard
{A} warmed {B} up|{A} {a} réchauffé {B}|cloth heater|prey animal|thick;close;clean|cold;wet;sick;young
{A} woke {B} up|{A} {a} réveillé {B}|force weather|animal hunter beast|violent;too close;sudden|nervous;worried;young;restless
{A} tripped over {B}|{A} {a} trébuché sur {B}|beast animal|missile thing|tired;clumsy;distracted;old|well hidden;bulky;too long
{A} collided with {B}|{A} {a} percuté {B}|vehicle vessel|support cover|too fast;defective;too wide|well hidden;too close;too low
{A} tore off {B}|{A} {a} arraché {B}|force|plant cloth|violent;powerful;too strong|fragile;badly fixed;delicate;light
{A} toppled {B}|{A} {a} fait basculer {B}|force beast|furniture vessel|strong;powerful;huge|unstable;light;too tall;empty
{P} lost sight of {A} behind {B}|{P} {a} perdu de vue {A} derrière {B}|prey vehicle insect|cover|too fast;small;far away;tiny|tall;huge;wide;very wide
{P} filled {A} with {B}|{P} {a} rempli {A} avec {B}|mug|drink|empty;big;clean;practical|fresh;delicious;cheap;sweet
{P} threw {A} at {B}|{P} {a} lancé {A} sur {B}|missile|hunter|light;heavy;useless;close|aggressive;dangerous;fierce;hungry
{P} tied {A} to {B}|{P} {a} attaché {A} {aB}|beast vessel|support|light;fast;precious;restless|solid;robust;high;thick
{P} repaired {A} with {B}|{P} {a} réparé {A} avec {B}|furniture device vehicle|tool link|broken;damaged;precious;useful|practical;solid;robust;flexible
{P} cancelled {A} after {B}|{P} {a} annulé {A} après {B}|event|force weather|too expensive;useless;badly organised;too long|violent;sudden;powerful
{P} summed up {A} in {B}|{P} {a} résumé {A} dans {B}|talk matter proposal|text|too long;complicated;important|short;practical;easy
{A} interrupted {B}|{A} {a} interrompu {B}|weather force|event|violent;sudden;too strong|too long;badly organised
{A} contradicted {B}|{A} {a} contredit {B}|text talk|matter proposal|recent;surprising;short|absurd;too vague;unfair
{A} cost more than {B}|{A} coût{ait} plus cher que {B}|vehicle jewel device instrument furniture|=|new;magnificent;perfect;big|old;damaged;ugly;broken
{A} lasted longer than {B}|{A} {a} duré plus longtemps que {B}|device tool clothes|=|solid;robust;new|fragile;defective;too old
{A} sounded worse than {B}|{A} sonn{ait} moins bien que {B}|instrument|=|old;broken;damaged|new;perfect;magnificent
{A} weighed less than {B}|{A} pes{ait} moins lourd que {B}|container thing|=|empty;hollow;small;tiny|full;huge;bulky;wet
{A} nibbled {B}|{A} {a} grignoté {B}|prey animal|food plant|hungry;curious;young|soft;fresh;delicate
{A} watched {B}|{A} observ{ait} {B}|hunter animal|prey insect|curious;hungry;cautious|colourful;restless;strange;injured
{A} fed {B}|{A} {a} nourri {B}|beast|prey|generous;kind;old|young;hungry;weak;starving
{A} outran {B}|{A} {a} distancé {B}|prey beast|hunter|fast;agile;scared;young|tired;slow;lame;too fat
{A} got away from {B}|{A} {a} échappé {aB}|prey insect|hunter|agile;fast;small;well hidden|slow;distracted;asleep;deaf
{A} fell asleep in {B}|{A} {sest} endormi{e} dans {B}|animal hunter|shelter dwelling|tired;exhausted;sick;young|warm-place;cosy;quiet;dark
{A} couldn't drink {B}|{A} ne pouv{ait} pas boire {B}|animal beast|drink|too weak;asleep;sick|frozen;too hot-thing;contaminated;disgusting
{A} couldn't land on {B}|{A} {na} pas pu atterrir sur {B}|aircraft|road ground land|too heavy;too fast;defective;too big|frozen;flooded;muddy;too soft
{A} crashed into {B}|{A} {sest} écrasé{e} contre {B}|aircraft|slope place|too slow;defective;too low;damaged|too high;well hidden;too close
{A} couldn't fly over {B}|{A} {na} pas pu survoler {B}|aircraft insect|slope land|too heavy;too slow;too old;damaged|too high;on fire;vast;too dangerous
{P} couldn't park {A} in {B}|{P} {na} pas pu garer {A} dans {B}|vehicle|room shelter|too wide;too long;enormous;bulky|too narrow;too small;blocked;cramped;full
{P} couldn't get {A} out of {B}|{P} {na} pas pu sortir {A} {dB}|thing furniture load|room opening trench|too heavy;bulky;stuck;too wide|too narrow;too deep;locked;cramped;flooded
{A} hang{s} over {B}|{A} déborde{nt} sur {B}|cloth thing|seat furniture|too long;too wide;huge;too big|too small;too narrow;too short;tiny
{A} {dont} match the size of {B}|{A} ne s'adapte{nt} pas à la taille {dB}|cloth container|covered load thing|too small;tiny;too rigid;torn|too big;enormous;bulky;too long
{A} {dont} touch the bottom of {B}|{A} ne touche{nt} pas le fond {dB}|link tool|bucket trench|too short;short;too light|too deep;deep;very deep
""".strip()  # fmt: skip

# The same, but what is said of A or of B should have prevented it: even though.
CONCESSIONS = """
{A} got through {B}|{A} {est} passé{e} par {B}|furniture thing vehicle|opening|wide;bulky;huge;big|narrow;small;low;cramped
{P} managed to fit {A} into {B}|{P} {a} réussi à faire entrer {A} dans {B}|thing instrument furniture|container vehicle|big;bulky;huge;rigid;long|small;narrow;already full;tiny
{A} split open {B}|{A} {a} fendu {B}|missile blade|breakable furniture|small;light;worn out;hollow|solid;thick;hard;robust
{A} withstood {B}|{A} {a} résisté {aB}|place shelter|force weather|old;fragile;badly built;made of wood;dilapidated|violent;powerful;icy;sudden
{A} supported {B}|{A} {a} supporté {B}|support seat|load|thin;old;fragile;rusty;worn out|heavy;huge;bulky;enormous
{A} finished {B}|{A} {a} fini {B}|animal hunter|food toast|sick;tired;sad|tasteless;huge;cold-thing;dry;bitter
{A} overtook {B}|{A} {a} dépassé {B}|vehicle|=|old;slow;damaged;full|fast;new;modern
{A} escaped from {B}|{A} {sest} échappé{e} {dB}|animal hunter beast|shelter|sick;injured;young;lame|locked;solid;closed
{A} made it to {B}|{A} {a} atteint {B}|vehicle vessel beast|place land|slow;old|far away;isolated;well hidden
{A} jumped over {B}|{A} {a} sauté par-dessus {B}|beast hunter|upright|tired;old;fat;heavy|high;huge;solid
{P} covered {A} with {B}|{P} {a} recouvert {A} avec {B}|covered furniture|cloth|huge;wide;bulky;magnificent|small;torn;short;transparent
{A} climbed {B}|{A} {a} gravi {B}|beast vehicle|slope|old;slow;heavy|high;icy;slippery;long
""".strip()  # fmt: skip

# What happens, and what A or B does then: English=French, whose {a}, {est}, {sest} and {e} agree with "it".
RESULTS = """
When {A} fell on {B}|Quand {A} {est} tombé{e} sur {B}|missile load|breakable|rolled away={a} roulé plus loin;made a lot of noise={a} fait beaucoup de bruit;stayed intact={est} resté{e} intact{e}|broke={sest} cassé{e};exploded={a} explosé;split={sest} fendu{e}
When {A} landed in {B}|Quand {A} {est} tombé{e} dans {B}|missile jewel tool|mug bucket container|sank={a} coulé;disappeared={a} disparu|overflowed={a} débordé;tipped over={sest} renversé{e}
After {A} bumped into {B}|Après que {A} {a} percuté {B}|vehicle|upright|reversed={a} reculé;drove on={a} continué sa route;braked={a} freiné|collapsed={sest} effondré{e};gave way={a} cédé
As soon as {A} noticed {B}|Dès que {A} {a} aperçu {B}|prey|hunter|ran away={sest} enfui{e};hid={sest} caché{e};fled={a} pris la fuite|attacked={a} attaqué;came closer={sest} approché{e}
When {A} bit {B}|Quand {A} {a} mordu {B}|hunter|prey|let go={a} lâché prise;retreated={a} reculé|bled={a} saigné;cried={a} crié;fell={est} tombé{e}
When {A} pulled {B}|Quand {A} {a} tiré {B}|beast|towed|got tired={sest} fatigué{e};sweated={a} transpiré|tipped over={sest} renversé{e};moved forward={a} avancé;broke={sest} cassé{e}
When {P} left {A} near {B}|Quand {P} {a} laissé {A} près {dB}|frozen|heater|melted={a} fondu|went out={sest} éteint{e};cooled down={a} refroidi
When {P} put {A} into {B}|Quand {P} {a} mis {A} dans {B}|food|heater|burned={a} brûlé;softened={a} ramolli|broke down={est} tombé{e} en panne;smoked={a} fumé
When {P} poured {A} on {B}|Quand {P} {a} versé {A} sur {B}|drink|heater|evaporated={sest} évaporé{e};froze={a} gelé|went out={sest} éteint{e};broke down={est} tombé{e} en panne
When {P} sliced {A} with {B}|Quand {P} {a} tranché {A} avec {B}|food|blade|fell apart={sest} défait{e};went soft={a} ramolli|slipped={a} glissé;broke={sest} cassé{e}
When {P} hung {A} from {B}|Quand {P} {a} suspendu {A} {aB}|load thing|support link|swung={sest} balancé{e};spun={a} tourné|gave way={a} cédé;stretched={sest} étiré{e}
When {P} watered {A} with {B}|Quand {P} {a} arrosé {A} avec {B}|plant|mug|grew={a} poussé;straightened up={sest} redressé{e}|leaked={a} fui;slipped={a} glissé
When {A} touched {B}|Quand {A} {a} effleuré {B}|light|cloth clothes|went out={sest} éteint{e};broke={sest} cassé{e}|caught fire={a} pris feu;burned={a} brûlé
""".strip()  # fmt: skip
