"""More that can be said of things, in English only: for a head that learns without a translation where "it" points.

Groups as in sense_predicates.py; a line that begins with > is a verb with what follows, the others are what follows "was".
"""

from __future__ import annotations

__all__ = ["PREDICATES"]

PREDICATES = """
@animal small ~ group
starving;sleepy;wild;fierce;timid;shy of people;thirsty after the run;restless;hurt;limping;lame;afraid of us;angry;sick;pregnant again;asleep;awake all night;alive;dead;dying;playful;greedy;jealous;curious about us;aggressive;friendly;lonely;exhausted;cautious;too slow to escape;a good hunter;warm-blooded;ready to attack;hiding from its enemies;in pain
>wanted to eat;wanted to sleep;could not sleep;could smell us;could hear us;ran away;hid in the bushes;shook with fear;had a baby;had fur;had big ears;had sharp claws;had been fed already;needed food;needed exercise;was chasing something;growled at everyone;scratched me;licked my hand;trusted nobody;saw an enemy;felt threatened;was tired of running;had been bitten
@food ~ liquid animal small plant medicine
tasty;yummy;delicious;sweet and soft;bitter;salty;spicy;too spicy;stale;mouldy;spoiled;rotten;raw;undercooked;overcooked;burnt;greasy;crunchy;crispy;chewy;homemade;organic;full of sugar;full of fat;rich in vitamins;nutritious;low in calories;too salty;tasteless;easy to digest;good to eat;ready to be eaten;past its date;freshly baked;poisoned
>tasted good;tasted awful;tasted of garlic;smelled delicious;had gone bad;had gone off;melted in my mouth;needed more salt;made everyone hungry;was served with sauce;contained nuts;had been in the fridge for a week;filled our stomachs
@fruit vegetable ~ food plant
ripe;unripe;not ripe yet;juicy;freshly picked;full of pips;bruised;seasonal;out of season
>had a worm in it;grew in our garden;had a thick skin
@liquid ~ food medicine
lukewarm;diluted;too strong to drink;non-alcoholic;fizzy;cloudy
>had been spilled;had gone flat;was still boiling;quenched our thirst;froze overnight;was poured away;made him drunk
@clothes ~ jewel
too tight;too loose;too long in the sleeves;torn;worn out;out of fashion;made of wool;made of cotton;waterproof;dirty from the mud;wrinkled;striped;stained;freshly ironed;comfortable to wear;in my size;knitted by hand
>did not fit me;fitted me perfectly;had a hole in the sleeve;had shrunk in the wash;had no pockets;had lost a button;kept me warm;suited her
@jewel ~ clothes art instrument
made of silver;made of pure gold;set with diamonds;fake;stolen from a safe
>had belonged to a queen;sparkled;was worth a fortune
@furniture ~ holder part kitchen instrument
uncomfortable to sit on;wobbly;made of oak;antique;too big for the room;heavy to move;covered with cushions;badly assembled
>had a broken leg;had a wobbly leg;creaked;took up too much space;needed a coat of varnish
@holder kitchen ~ furniture
full to the brim;nearly empty;half empty;half full;full of water;leaking;chipped;cracked;watertight
>had a hole in it;had no lid;held two litres;overflowed
@machine ~ vehicle ship aircraft tool instrument software part
out of order;unplugged;switched off;switched on;overheating;outdated;noisy;automatic;electric;under warranty;badly programmed;broken beyond repair
>needed new batteries;needed to be repaired;had stopped working;would not start;consumed too much electricity;had a short circuit;was making a strange noise;had run out of power;kept breaking down;beeped
@tool ~ machine kitchen
rusty;blunt;sharp;too blunt to cut;good for cutting wood
>had a wooden handle;had lost its edge;slipped out of his hand
@instrument ~ art smell_sound
out of tune;hard to play;well tuned
>had a broken string;sounded beautiful;needed tuning
@text ~ art idea speech policy software
boring to read;hard to read;full of spelling mistakes;badly translated;illegible;published last year;out of print;written by hand;unreadable;written in Latin;a bestseller;well written;three hundred pages long
>had a missing page;had been translated into ten languages;ended with a murder;had a sad ending;was not signed;told a true story
@art ~ text event idea
a masterpiece;abstract;painted in oil;exhibited in Paris;by a famous artist
>was admired by the critics;had been restored
@idea policy ~ text speech event art money
unrealistic;brilliant;hard to explain;controversial;too ambitious;based on a misunderstanding;naive;absurd;feasible;well thought out
>made no sense;had many supporters;had never been tried;came from our boss;was rejected
@policy ~ idea text event money
unconstitutional;unfair to the poor;in force since January;voted down;unpopular with voters
>needed a majority;had been adopted;would raise taxes
@speech ~ text idea event
rude;sincere;insulting;convincing;misunderstood;too vague
>was met with silence;made everyone laugh;offended her
@event ~ policy text art speech
cancelled because of rain;postponed;well attended;sold out;about to begin;nearly over;badly organised;open to everyone
>lasted three hours;took place on Sunday;started late;ended in a tie;had been planned for months;was broadcast live;began at noon
@feeling ~ idea smell_sound ailment
overwhelming;hard to hide;mutual;too strong to bear
>would not go away;grew stronger;faded with time
@ailment ~ feeling body animal
contagious;incurable;hereditary;fatal;curable;chronic
>spread quickly;could not be cured;needed treatment;kept me in bed
@body ~ animal
swollen;broken in two places;sprained;itchy;bleeding
>ached;hurt all night;had to be bandaged
@place room ~ outdoor part way
closed on Mondays;overcrowded;haunted;well heated;badly lit;under construction;for rent;for sale;in ruins;locked;closed to the public;demolished last year;too expensive to rent;decorated for Christmas;hard to heat;full of guests;full of people
>had no windows;had three floors;had a leaking roof;opened at nine;closed early;was built in the nineteenth century;smelled of paint;needed cleaning;had been burgled
@outdoor ~ place way water sky
covered with snow;full of wild flowers;overgrown;steep;muddy;too steep to climb;sown with wheat
>had been ploughed;stretched to the horizon;was grazed by sheep
@water ~ liquid outdoor
frozen over;too deep to cross;shallow;polluted;full of fish;deep and cold;calm;flooded;dried up
>had burst its banks;flowed into the sea;had a strong current;was good for swimming;had dried out
@way ~ outdoor place
slippery;icy;too narrow for trucks;blocked by snow;too wide to cross;full of traffic;full of holes;one-way;closed to traffic;very busy;winding
>led to the village;had no pavement;was closed for repairs;had two lanes;ended at the river
@vehicle ~ ship aircraft machine part
parked in the wrong place;stuck in traffic;stuck in the mud;out of petrol;too fast;late again;second-hand;full of passengers;driven by a drunk man;speeding
>had a flat tyre;would not brake;had run out of fuel;skidded;was going too fast;needed petrol;had broken down;had no brakes;had a dent in the door;left without us
@ship ~ vehicle aircraft
seaworthy;anchored in the bay;shipwrecked;loaded with grain
>had sunk;was sinking;hit an iceberg;set sail at dawn;had a crew of ten;ran aground
@aircraft ~ vehicle ship
about to land;ready for take-off;flying too low
>had to make an emergency landing;had crashed;landed safely;lost an engine;took off late
@plant ~ fruit vegetable outdoor material
in bloom;withered;evergreen;full of thorns;leafless;too tall for the garden;about to flower
>had lost its leaves;needed water;needed watering;needed more light;grew too fast;had deep roots;had been planted by my grandfather;had been struck by lightning;bloomed in May
@group ~ animal
on strike;short of members;about to win;divided;founded last year;bankrupt;poorly paid;out of money;unanimous
>had lost the match;demanded higher wages;met once a week;voted against us;hired new people;fired ten people;celebrated its victory;had won the cup;made a profit
@money ~ policy
too high;overdue;tax-free;counterfeit
>was paid in cash;had been saved for years;arrived in our account
@toy ~ machine art
meant for small children;full of sand;good for bouncing
>bounced;belonged to my little sister;rolled away
@material ~ clothes part food
soft to the touch;easy to sew;flammable
>tore easily;was sold by the metre
@sky ~ outdoor smell_sound
dark with clouds;starless;too bright to look at
>cleared up;stopped at noon;hid the sun;had kept us awake
@smell_sound ~ feeling art
deafening;unbearable;too loud;coming from the kitchen
>woke the neighbours;filled the whole house;echoed
@software ~ machine text
full of bugs;infected with a virus;open source
>crashed twice a day;needed an update;deleted my files
@part ~ furniture machine vehicle holder
ajar;jammed;too low for tall people;double glazed
>would not open;would not close;squeaked;had been painted green;came off its hinges
@medicine ~ food liquid
only available on prescription;past its expiry date
>had side effects;relieved the pain;made me sleepy;worked within an hour
"""
