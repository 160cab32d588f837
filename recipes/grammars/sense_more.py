"""More words in English alone, for a head that learns without a translation where "it" points.

Nouns and predicates by the groups of sense_predicates.py; frames of two nouns with what is said of one or the other, as in
pronoun_frames.py; and words that may take another's place. Written for this, without a look at any test.
"""

from __future__ import annotations

__all__ = ["FRAMES", "NOUNS", "OBJECTS", "PREDICATES", "SYNONYMS"]

NOUNS = """
animal: hound terrier spaniel collie bulldog kitten tomcat pony colt foal mare lamb ewe goat calf cow bull piglet sow hog hare beaver otter seal whale shark dolphin fox bear cub lioness tiger leopard panther lynx puma ape zebra giraffe camel deer fawn stag eagle falcon owl parrot crow magpie pigeon seagull swan goose duck rooster turkey peacock stork crane tortoise lizard snake viper crocodile toad goldfish trout hamster hedgehog mole rat weasel skunk opossum kangaroo ostrich parakeet guinea_pig polar_bear wild_boar racehorse creature beast pet
small: ant wasp hornet fly mosquito moth butterfly beetle ladybird scorpion flea tick cockroach worm earthworm snail slug grasshopper dragonfly cricket larva tadpole bug shrimp louse
food: toast sandwich burger pizza pasta spaghetti broth porridge omelette steak roast ham bacon sausage chicken turkey beef pork lamb_chop salmon tuna cod lobster salad curry stew casserole pie tart cupcake muffin doughnut pancake waffle biscuit cookie brownie pudding custard yoghurt ice_cream chocolate candy fudge marmalade honey butter sauce gravy mayonnaise ketchup dumpling noodle risotto lasagne quiche kebab croissant bagel cereal snack dessert meal lunch dinner breakfast supper leftovers pastry omelet meatball popcorn
fruit: apple pear peach plum cherry apricot orange tangerine lemon lime grapefruit pineapple mango papaya melon watermelon grape strawberry raspberry blueberry blackberry fig date kiwi coconut avocado nectarine pomegranate
vegetable: potato tomato onion leek cabbage cauliflower lettuce cucumber courgette pumpkin aubergine turnip radish beetroot mushroom pepper pea bean celery asparagus artichoke sweet_potato
liquid: coffee cocoa juice lemonade cola beer wine cider whisky rum gin vodka champagne cocktail smoothie milkshake espresso punch syrup vinegar
medicine: pill tablet syrup ointment cream vaccine antibiotic painkiller lozenge sedative cough_syrup
clothes: blouse sweater jumper cardigan overcoat raincoat jacket blazer suit tuxedo gown skirt apron uniform scarf shawl tie hat cap beret helmet glove mitten sock stocking shoe boot sandal slipper sneaker vest hoodie swimsuit bikini dressing_gown bathrobe kimono costume belt bow_tie bonnet cape cloak kilt leotard anorak parka
jewel: ring necklace bracelet earring brooch pendant tiara crown diamond pearl ruby emerald sapphire opal amulet locket medallion cufflink wedding_ring
furniture: chair armchair couch bench stool bunk crib cradle mattress wardrobe cabinet dresser bookcase bookshelf chest sideboard rug chandelier deckchair hammock footstool filing_cabinet
kitchen: saucepan pot kettle teapot saucer mug jug fork ladle spatula whisk grater colander sieve rolling_pin chopping_board wok
holder: box crate basket bucket barrel jar tin tub tank bag rucksack backpack handbag purse wallet envelope parcel drawer chest trunk bin vase flask thermos pouch sack cardboard_box lunchbox toolbox piggy_bank briefcase aquarium
machine: computer scanner photocopier fridge freezer oven microwave dishwasher dryer vacuum_cleaner toaster blender mixer kettle lawnmower generator engine motor pump boiler radiator heater fan air_conditioner elevator lift escalator robot drill projector television radio telephone smartphone tablet laptop camera watch calculator loudspeaker microphone router drone crane excavator bulldozer
tool: axe hatchet saw screwdriver spanner wrench pliers chisel file blade razor scissors shovel spade rake hoe pickaxe crowbar chain screw needle pin broom mop sponge brush paintbrush ruler compass pencil pen crayon eraser stapler sword dagger spear bow arrow pistol rifle fishing_rod wheelbarrow
instrument: piano organ accordion harmonica guitar violin cello harp banjo mandolin flute clarinet oboe saxophone trumpet trombone tuba drum tambourine xylophone bagpipe
text: novel textbook dictionary encyclopedia diary magazine article essay poem fairy_tale biography autobiography letter postcard note message e-mail report thesis contract will invoice receipt ticket passport certificate form questionnaire map brochure leaflet poster manual recipe menu list manuscript chapter page paragraph headline advertisement script
art: painting portrait sculpture drawing sketch photograph fresco mosaic film movie documentary cartoon play musical opera ballet symphony concerto sonata song melody album soundtrack series
idea: idea theory hypothesis plan project proposal suggestion argument solution method strategy concept belief opinion principle question problem riddle puzzle mystery excuse explanation
policy: law bill reform treaty agreement regulation ban tax_cut measure amendment resolution directive programme policy
speech: speech lecture sermon joke remark comment answer reply question apology promise threat compliment insult announcement statement toast interview rumour
event: concert festival party wedding funeral ceremony meeting conference congress match game tournament race marathon election referendum strike demonstration parade auction exhibition fair lesson class exam trial birthday anniversary picnic barbecue banquet trip journey flight cruise expedition holiday rehearsal debate
feeling: anger joy fear sadness jealousy envy grief pride shame guilt disappointment enthusiasm loneliness anxiety love hatred
ailment: cold flu cough fever headache toothache migraine allergy rash infection disease illness epidemic virus cancer pneumonia bronchitis burn wound bruise fracture injury
body: arm leg hand foot finger thumb toe knee elbow shoulder ankle wrist back neck throat ear eye nose tooth hip
place: flat cottage villa mansion palace castle tower hostel inn restaurant café bar pub supermarket bakery bookshop pharmacy library gallery theatre cinema university hospital clinic church cathedral chapel mosque temple monastery prison factory warehouse office bank airport stadium gym farm barn stable greenhouse hut cabin shed town_hall post_office nightclub skyscraper city town village island resort
room: kitchen bathroom living_room dining_room cellar basement attic garage corridor hall lobby classroom gymnasium laboratory studio waiting_room changing_room ward cell balcony terrace porch nursery
outdoor: field meadow park lawn forest wood jungle desert mountain valley canyon cliff island orchard vineyard swamp playground cemetery campsite clearing
water: lake stream brook canal sea ocean swimming_pool waterfall lagoon reservoir puddle
way: road avenue lane trail track motorway highway alley pavement crossroads roundabout pass
vehicle: taxi coach lorry van ambulance fire_engine motorbike scooter moped tram locomotive sleigh sledge carriage caravan limousine jeep minibus wheelchair snowplough convertible
ship: ferry yacht canoe kayak raft liner tanker trawler submarine warship frigate lifeboat barge gondola dinghy
aircraft: aeroplane helicopter jet glider airliner balloon airship rocket spacecraft satellite seaplane
plant: tree oak pine fir birch willow palm_tree chestnut_tree bush hedge shrub rose tulip lily daisy orchid sunflower cactus fern ivy vine bamboo cherry_tree apple_tree lawn seedling geranium lavender
group: team orchestra choir band army navy police government parliament committee council jury firm bank union party club association family class crowd gang crew audience ministry tribe agency
money: price salary wage rent bill fine tax fee loan debt grant pension budget inheritance reward deposit discount donation refund
toy: doll teddy_bear kite balloon puzzle swing slide skateboard trampoline rocking_horse tricycle yo-yo sandcastle football tennis_racket
material: wood wool cotton silk leather velvet denim linen plastic cardboard cloth fabric canvas steel iron copper marble concrete brick
sky: sun star comet planet storm rain snow fog wind breeze thunder lightning sunset rainbow hurricane blizzard hail
smell_sound: smell scent perfume stench odour noise sound whistle scream bang echo siren melody alarm music
software: program app website browser game virus operating_system database password spreadsheet
part: gate ceiling floor chimney lock handle doorbell shutter blind tap sink bathtub shower toilet drain step engine_bonnet windscreen tyre wheel brake boot exhaust saddle pedal
"""

PREDICATES = """
@animal small ~ group
peckish;ravenous;fast asleep;half asleep;toothless;deaf;blind in one eye;fond of children;too young to be left alone;nearly extinct;endangered;poisonous to the touch;in heat;moulting;hibernating;too weak to stand;dehydrated;terrified;startled by the noise;nervous around strangers;fed twice a day;covered in fleas;hunted for its fur;trained to obey;shedding its fur;well fed;underfed;thirsty;hungry;weary;old and blind;scared of thunder;vaccinated last week;born last spring
>had not been fed;had not drunk anything;was hungry again;was growling;was barking;was purring;was wagging its tail;had swallowed a bone;had been stung;was building a nest;wanted to be stroked;wanted to go out;wanted some attention;had escaped from the zoo;could not find its way home;had broken its leg;was licking its wounds;missed its owner;missed its mother;was bored;was protecting its babies;could see in the dark;could swim well;had good hearing;lived to be twenty;had been run over;needed a vet;bit the postman;sneezed;yawned;felt sick;felt lonely;felt safe there;had been trained by a professional;had a collar round its neck
@small ~ animal
>had six legs;stung me on the arm;was buzzing around;had spun a web
@food ~ liquid animal small plant medicine
scrumptious;savoury;flavoursome;bland;underseasoned;oversalted;too rich;too sweet;too fatty;too dry;well seasoned;cooked to perfection;rancid;sour;inedible;gluten-free;vegetarian;vegan;fattening;filling;healthy;unhealthy;low in salt;high in calories;full of cholesterol;still frozen in the middle;sticky and sweet;soggy;crumbly;tender;tough to chew;overripe;sugary;half eaten;reheated twice;mouth-watering;good for my diet;bad for the teeth;made with cream;cold by the time we ate
>tasted like cardboard;tasted funny;tasted wonderful;tasted burnt;had turned sour;had no taste;smelled of cinnamon;needed a little sugar;needed more time in the oven;had been left out of the fridge;was swarming with ants;gave me indigestion;made me feel sick;was easy to swallow;crumbled in her hand;stuck to my teeth;filled me up;went well with wine;had been prepared by a chef;was covered with chocolate;contained too much sugar;came with chips;had mould on it
@fruit vegetable ~ food plant
full of juice;not yet ripe;overripe;seedless;rich in vitamin C;hard and green
>had to be peeled;fell from the tree;had been picked too early;was full of seeds
@liquid ~ food medicine
ice-cold;piping hot;too hot to drink;bitter without sugar;sparkling;weak;decaffeinated;well aged;chilled;undrinkable
>tasted watery;went to his head;kept me awake all night;needed more ice;gave me a hangover;burned my tongue
@medicine ~ food liquid
hard to swallow;effective against fever;available over the counter;to be taken twice a day;to be kept out of reach of children;addictive
>cured me;had been prescribed by a doctor;had no effect;brought down my fever;had to be taken after meals
@clothes ~ jewel
two sizes too big;too short in the sleeves;baggy;threadbare;shabby;stylish;elegant;see-through;itchy;tailor-made;made of silk;lined with fur;soaked with sweat;buttoned up wrong;darned;too warm for summer;unfashionable;soft and warm;easy to iron
>did not suit me;was the wrong size;had come undone;needed ironing;needed washing;had a tear in it;had a stain on the collar;did not match my eyes;was hanging in the wardrobe;was too tight round the waist;made her look slim;had a broken zip;was worn by my grandmother;itched all day;had been altered by a tailor;wrinkled easily;kept out the cold
@jewel ~ clothes art instrument
made of platinum;inherited from my grandmother;genuine;priceless;eighteen carats;engraved with her name
>glittered in the light;had been pawned;slipped off her finger;had been handed down for generations
@furniture ~ holder part kitchen instrument
hard to assemble;upholstered in leather;lopsided;made of pine;covered in dust;comfortable to sit on;cosy;soft to lie on
>wobbled;had a missing leg;came flat-packed;collapsed when I sat down;had been reupholstered;had woodworm;sagged in the middle
@holder kitchen ~ furniture
full of coins;empty;too full to close;filled to the top;airtight;unbreakable;dishwasher safe;too small to hold everything
>could hold five litres;had no handle;had a false bottom;would not shut;leaked;had been filled with sand;had been emptied;contained all our savings
@machine ~ vehicle ship aircraft tool instrument software part
defective;obsolete;energy-efficient;easy to operate;hard to operate;state of the art;on standby;not plugged in;repaired twice already;battery-powered;too complicated to use;faulty;broken
>broke down again;would not switch on;ran out of battery;needed charging;needed a new part;used too much power;had a loose wire;was under repair;hummed all night;overheated;had a one-year guarantee;gave off smoke;could be controlled by phone;had been invented in Germany;had to be unplugged;displayed an error;was not connected;made a terrible noise;exploded
@tool ~ machine kitchen
too short to reach;razor-sharp;blunt;handy;easy to grip;made of stainless steel;used by carpenters;dangerous for children
>cut my finger;snapped in two;needed sharpening;had a broken handle;bent when he used it
@instrument ~ art smell_sound
hard to tune;played by a virtuoso;made in Italy by hand
>needed new strings;had a beautiful tone;sounded flat;had not been played for years
@text ~ art idea speech policy software
hard to understand;easy to read;well researched;poorly written;too long to read;written in simple language;full of mistakes;full of lies;translated from Russian;out of date;torn in two;signed by the author;addressed to me;confidential;handwritten;unsigned;banned by the censors;plagiarised;boring from beginning to end;dedicated to his wife;gripping
>had been published;had a happy ending;bored me;had been rewritten twice;won a literary prize;had been forged;had an interesting plot;contained a spelling mistake;sent me to sleep;made me cry;ended badly;explained everything;had to be signed;had small print;was set in Paris;quoted Shakespeare;was read by millions;kept me reading until dawn
@art ~ text event idea
unfinished;badly framed;out of focus;a fake;overrated;ahead of its time;priceless
>hung in the gallery;won an Oscar;had been restored by experts;had bad reviews;depicted a battle;moved us to tears;starred my favourite actor;lasted over three hours
@idea policy ~ text speech event art money
flawed;far-fetched;ingenious;original;illogical;impractical;too risky;too expensive to carry out;widely accepted;out of the question;based on facts;ridiculous;revolutionary;hard to prove
>could not work;was worth trying;had not been thought through;seemed crazy;had been proved wrong;needed more thought;convinced nobody;made perfect sense;was met with scepticism;saved us a lot of time;solved everything
@policy ~ idea text event money
repealed;passed unanimously;hard to enforce;illegal;undemocratic;welcomed by the unions
>had been vetoed;came into force in May;had been passed by one vote;violated human rights;angered the workers;protected consumers
@speech ~ text idea event
hurtful;inaudible;off the record;in poor taste;long-winded;inappropriate;unfounded
>hurt her feelings;was greeted with applause;embarrassed everyone;lasted an hour;shocked the audience;was taken out of context;came from the heart
@event ~ policy text art speech
put off until Monday;called off;rained off;held every year;free of charge;a success;a failure;a disaster;boring for the children;rigged;televised;poorly attended;scheduled for tomorrow;fully booked
>was held outdoors;finished early;went on all night;had been put off;ended in chaos;attracted thousands of people;clashed with my holiday;drew a large crowd;raised money for charity;went smoothly;was interrupted by rain;brought the family together;starts at eight
@feeling ~ idea smell_sound ailment
hard to describe;unrequited;irrational;short-lived
>overcame him;turned into hatred;kept her awake;gnawed at him;showed on his face
@ailment ~ feeling body animal
infectious;transmitted by mosquitoes;treatable;rare;life-threatening
>had been diagnosed too late;healed by itself;left a scar;required surgery;kept coming back;could be treated with antibiotics
@body ~ animal
sore;numb;stiff;dislocated;in plaster;sunburnt;infected
>hurt;was bleeding;had gone numb;was aching;throbbed;itched;needed stitches
@place room ~ outdoor part way
draughty;air-conditioned;cramped;poorly lit;empty at night;full of tourists;too crowded;closed for renovation;about to close;open all night;too far from the centre;damp;newly renovated;spacious;abandoned;too small for the whole family;in the centre of town
>had burned down;had no heating;was being renovated;had just opened;offered free breakfast;had a wonderful view;was run by nuns;had been empty for years;was being painted;had poor service;served good food;smelled of smoke;had a swimming pool;went bankrupt;overlooked the sea;was full of cobwebs;could seat a hundred people
@outdoor ~ place way water sky
overgrown with weeds;too dry for farming;full of mosquitoes;green all year;hard to climb;covered in mist;uninhabited
>had been mined;needed mowing;stretched for miles;had been turned into a park;offered no shade
@water ~ liquid outdoor
swollen after the rain;full of weeds;rough;too cold for swimming;infested with sharks;murky
>had frozen over;had flooded the fields;was full of trout;had dried up;had a dangerous current;rose two metres
@way ~ outdoor place
bumpy;dusty;unlit;steep and narrow;blocked by a fallen tree;under repair;jammed with traffic;covered with ice;impassable
>forked;was being resurfaced;came to an end;had been washed away;led nowhere;had a speed limit
@vehicle ~ ship aircraft machine part
double-parked;overtaking;too slow;uninsured;out of control;full of commuters;driven too fast;delayed;running late;on the wrong side of the road;low on fuel;due for a service;hired for the day
>had a puncture;hit a tree;would not start;had been stolen;stalled;overtook us;needed new tyres;was towed away;swerved;broke down on the way;did not stop;arrived late;had a full tank;seated nine people;failed its inspection;braked too late
@ship ~ vehicle aircraft
moored in the harbour;overloaded;rowed by two men;lost at sea;about to set sail
>had capsized;drifted out to sea;lowered its sails;dropped anchor;rocked in the waves;was taking on water
@aircraft ~ vehicle ship
grounded by fog;airborne;cleared for landing;hijacked
>took off late;circled the airport;ran into turbulence;disappeared from the radar;lost height;was flying at night
@plant ~ fruit vegetable outdoor material
dying of thirst;in full bloom;overgrown;poisonous;full of blossom;bare in winter;hard to grow;diseased;infested with greenfly
>had been cut down;blew down in the storm;needed pruning;needed sunlight;was shedding its leaves;had taken root;had withered;flowered twice;was watered every day;turned red in autumn;had been planted too late
@group ~ animal
undefeated;understaffed;corrupt;in debt;badly led;in the minority;proud of its history;deeply divided;unable to agree;short of money
>went on strike;went bankrupt;had signed a contract;lost every game;played badly;could not reach a decision;elected a new leader;had resigned;dismissed its manager;won the championship;voted in favour;made a loss;cut a hundred jobs;had run out of money;celebrated all night;refused to negotiate
@money ~ policy
too low;unaffordable;due on Friday;far too high;negotiable;barely enough to live on;refundable
>was paid monthly;had been raised;had doubled;had to be paid back;covered all our expenses;was deducted from my pay
@toy ~ machine art
suitable for babies;made of rubber;fun to play with;stuffed with cotton
>kept the children busy;popped;squeaked;got stuck in a tree;needed pumping up
@material ~ clothes part food
stain-resistant;hard-wearing;recyclable;soft;water-repellent;brittle
>frayed;rotted;caught fire easily;was imported from China;had been recycled
@sky ~ outdoor smell_sound
blinding;forecast for tonight;visible to the naked eye
>lasted all night;had blown over;rose at six;shone all day;made the roads wet
@smell_sound ~ feeling art
ear-splitting;nauseating;faint;familiar;coming from upstairs;too shrill
>gave me a headache;made us jump;could be heard for miles;lingered for days;startled the baby
@software ~ machine text
easy to install;incompatible with my phone;user-friendly;protected by a password;malicious;slow to load
>had been hacked;froze;would not load;needed to be updated;could be downloaded for free;deleted everything
@part ~ furniture machine vehicle holder
stuck;bolted;cracked;leaking;blocked;broken;ajar;wide open;locked from inside;loose
>slammed in the wind;had come loose;let in a draught;needed oiling;would not lock;was dripping;banged all night;needed mending;let in the rain
"""

# Frames of two nouns: what is said of A, then what is said of B. A quality that begins with > is a verb.
FRAMES = """
{A} could not cross {B}|animal vehicle|way water|tired;afraid;too slow;injured;>had run out of strength;exhausted;lame|too deep;flooded;dangerous;too wide;closed
{P} could not open {A} with {B}|holder part|tool|rusty;stuck;locked;jammed;>had been glued shut|too short;bent;broken;too weak;the wrong one
{P} cut {A} with {B}|food material plant vegetable|tool|too long;too thick;tough;ripe;>had to be thinner|sharp;handy;within reach;>had a good blade;>cut well
{P} could not cut {A} with {B}|food material vegetable|tool|too hard;frozen;too tough;too thick|blunt;rusty;too small;>had lost its edge;not sharp enough
{P} put {A} in {B}|food liquid medicine fruit|holder kitchen|leftover;hot;fresh;going to be eaten later;>would go off otherwise|empty;clean;big enough;airtight;>had a lid
{P} could not put {A} in {B}|furniture instrument machine|vehicle room holder|too bulky;too tall;too heavy;too long;>would not fold|too small;already full;locked;too narrow;>had no space left
{P} took {A} out of {B}|food clothes tool text|holder furniture|needed;wet;ready;useful;>was about to break|overfull;leaking;on fire;>had to be cleaned;>was wanted for something else
{P} poured {A} into {B}|liquid|kitchen holder|ready;fresh;hot;>had cooled down;finished|empty;clean;nearby;big
{P} spilled {A} on {B}|liquid food|clothes furniture|too full to carry;sticky;hot;>had been filled to the brim|in the way;white;low;>was spread out on the floor
{P} hung {A} on {B}|clothes art|part furniture|wet;beautiful;valuable;>had to dry|empty;bare;strong enough;>looked too bare
{P} tied {A} to {B}|animal ship|part plant tool|restless;wild;aggressive;>kept running away;>might drift away|solid;firm;close by;strong;>stood firm
{P} covered {A} with {B}|furniture vehicle plant food|material clothes|dusty;delicate;fragile;>might freeze;wet;new|thick;clean;waterproof;big;>kept out the rain
{P} wrapped {A} in {B}|jewel kitchen toy food|material text|fragile;a present;breakable;>broke easily;delicate|soft;thick;pretty;>protected well
{P} leaned {A} against {B}|tool vehicle instrument|part plant furniture|heavy;unstable;too long;>would not stand up|solid;near;firm;>stood right there
{P} tripped over {A} near {B}|tool toy holder animal|part furniture|in the way;hidden;lying there;small;>had been left on the floor|badly lit;dark;open;>cast a shadow
{P} sent {A} instead of {B}|text|text money art|shorter;urgent;important;up to date;>had just been finished|lost;too long;outdated;incomplete;>was full of errors
{P} believed {A} rather than {B}|text speech|text idea|convincing;honest;well founded;signed;>gave evidence|far-fetched;full of lies;vague;>contradicted itself
{P} finished {A} before {B}|text art food|text art event|short;easy;nearly done;urgent;>had to be ready first|difficult;long;complicated;>could wait
{P} sold {A} to pay for {B}|vehicle jewel instrument ship|event ailment money place|valuable;too old;useless;>was no longer used;>brought in a lot|expensive;overdue;necessary;>cost a fortune;urgent
{P} missed {A} because of {B}|event vehicle|sky event way ailment|early;on time;>started early;>left on time|terrible;unexpected;endless;blocked;>lasted too long
{P} arrived at {A} before {B}|place event|vehicle sky|close;nearby;easy to find;>was just round the corner|late;slow;delayed;>had not started yet
{P} left {A} for {B}|place room|place outdoor|noisy;crowded;too hot;stuffy;too small;>was on fire|quiet;cool;peaceful;bigger;sunny;>had more space
{P} chose {A} over {B}|place event idea|place event|cheaper;nearer;better;more fun;safer;>cost less|too far;too expensive;boring;fully booked;>cost too much
{P} walked from {A} to {B}|place|place water outdoor|closed;full;boring;noisy;>had just closed|open;near;beautiful;famous;>could be seen from there
{P} heard {A} through {B}|smell_sound machine instrument|part|loud;shrill;noisy;deafening;>went on all night|thin;open;hollow;>was not closed
{P} saw {A} through {B}|animal sky vehicle|part plant|huge;bright;near;white;>moved|transparent;open;clean;bare
{P} watered {A} with {B}|plant outdoor|holder tool|dry;thirsty;young;dying;>had not had any rain|full;handy;nearby;>held a lot of water
{P} planted {A} next to {B}|plant|part place way water|young;fragile;evergreen;>needed shade;>grew fast|ugly;bare;sunny;>gave some shade
{P} fed {A} with {B}|animal|food fruit vegetable|hungry;starving;thin;young;>had not eaten|fresh;left over;cheap;soft;>had been in the fridge
{P} kept {A} away from {B}|animal|furniture food clothes|dirty;wet;muddy;clumsy;>shed a lot of hair|new;clean;expensive;white;>had just been cleaned
{P} rescued {A} from {B}|animal|water part place|drowning;stuck;trapped;too weak to climb;>could not swim|on fire;deep;flooded;frozen;>was about to collapse
{P} chased {A} out of {B}|animal small|room outdoor place|noisy;dirty;dangerous;annoying|clean;private;tidy;full of food;>had just been swept
{P} drove {A} into {B}|vehicle|water part plant|too fast;hard to steer;out of control;>had no brakes|badly lit;hidden;too close to the road;>was not marked
{P} parked {A} behind {B}|vehicle|place vehicle plant|too big;new;expensive;>was not to be seen|quiet;shady;hidden;>gave some shade
{P} towed {A} with {B}|vehicle ship|vehicle tool|broken;stuck;damaged;abandoned;>had no petrol|powerful;strong;robust;>could pull anything
{P} repaired {A} with {B}|machine vehicle furniture clothes|tool material|torn;broken;damaged;worn;>had stopped working|handy;suitable;strong;>was the right size
{P} could not repair {A} with {B}|machine vehicle furniture|tool material|too damaged;too old;too complicated;beyond repair|the wrong size;useless;too weak;>did not fit
{P} lit {A} with {B}|room way|machine tool|dark;dim;gloomy|bright;powerful;portable;>shone brightly
{P} replaced {A} by {B}|idea policy software machine|idea policy software machine|outdated;inefficient;too slow;useless;>no longer worked|modern;better;faster;efficient;>worked well
{P} paid {A} with {B}|money|money jewel|due;overdue;too high;>had to be paid at once|enough;available;sufficient;>had just arrived
{P} cured {A} with {B}|ailment animal|medicine plant|contagious;painful;serious;sick;>was getting worse|effective;powerful;new;>had been tested
{P} could not cure {A} with {B}|ailment|medicine|incurable;too serious;too advanced;>had spread|ineffective;too weak;out of date;>had expired
{P} hurt {A} with {B}|body animal|tool machine furniture|unprotected;bare;in the way;>got too near|sharp;heavy;hot;pointed;>slipped
{P} put {A} on {B}|medicine material|body animal|effective;cool;soft;clean;>relieved pain|swollen;sore;bleeding;burnt;>hurt
{P} asked {A} about {B}|group|policy money event idea|responsible;in charge;well informed;>knew the answer|unclear;controversial;secret;postponed;>had been cancelled
{A} rejected {B}|group|policy idea text money|divided;conservative;cautious;hostile;>had no majority;stubborn|unfair;vague;expensive;risky;unrealistic;>cost too much;badly written
{A} approved {B}|group|policy idea money event|unanimous;in favour;convinced;united;>wanted a change|reasonable;urgent;necessary;fair;>made sense;popular
{A} cancelled {B}|group|event policy|bankrupt;short of money;on strike;>had lost its leader|dangerous;too expensive;unpopular;>had sold no tickets
{A} won {B}|group animal|event money|strong;well trained;fast;lucky;determined;>had practised a lot|easy;short;badly organised;unfair
{A} lost {B}|group|event|weak;tired;badly prepared;unlucky;>had no goalkeeper;>played badly|difficult;rigged;too long;>took place abroad
{A} bought {B}|group|vehicle machine place ship|rich;wealthy;growing;>had made a profit;>needed more space|cheap;for sale;second-hand;modern;>was going for a song
{A} closed {B}|group|place way|bankrupt;careful;responsible;>had no choice;afraid of an accident|unsafe;too small;dirty;dangerous;>was losing money;empty
{A} chewed {B}|animal|clothes furniture toy|bored;young;teething;nervous;hungry;>had nothing to play with|soft;tasty;lying around;made of leather
{A} followed {B}|animal|vehicle animal way|curious;lost;loyal;hungry;>had lost its owner|slow;interesting;>smelled of food
{A} knocked over {B}|animal vehicle sky|plant holder furniture part|clumsy;wild;violent;too fast;excited;>could not stop|light;unsteady;badly placed;top-heavy;fragile
{A} slept in {B}|animal|furniture room holder|tired;old;lazy;sleepy;ill;>had been up all night|warm;soft;dark;comfortable;quiet
{A} would not eat {B}|animal|food fruit vegetable|ill;full;fussy;nervous;>had just been fed;spoilt|mouldy;too hot;bitter;rotten;too dry
{A} ate all of {B}|animal|food fruit|greedy;famished;>had been out all day;growing|tasty;sweet;tender;juicy;>smelled so good
{A} was afraid of {B}|animal|machine sky animal smell_sound|shy;timid;young;nervous;>had been beaten before|loud;huge;noisy;threatening;>roared
{A} got stuck in {B}|vehicle animal|outdoor way part water|too heavy;too wide;too fat;>was going too slowly|muddy;deep;too narrow;soft;>was full of mud
{A} crashed into {B}|vehicle aircraft ship|part place plant outdoor|out of control;too fast;>had lost a wheel;>could not brake|invisible in the fog;unlit;in the way;hidden
{A} stopped at {B}|vehicle|place way|out of fuel;full;early;>needed petrol;overheated|closed;blocked;busy;>had a red light
{A} sank near {B}|ship|outdoor place water|leaking;overloaded;damaged;unseaworthy|rocky;dangerous;stormy;>had no lighthouse
{A} could not land on {B}|aircraft|way outdoor water|damaged;too heavy;too fast;>had lost an engine|too short;icy;foggy;too narrow;flooded
{A} flew over {B}|aircraft animal|outdoor place water|lost;fast;>was looking for a place to land;light|beautiful;on fire;deserted;flooded
{A} damaged {B}|sky vehicle animal|place part plant vehicle|violent;strong;uncontrollable;>came without warning|fragile;old;unprotected;badly built;rotten
{A} woke {B}|smell_sound machine sky|animal group|loud;noisy;sudden;deafening;>went off at five|asleep;nearby;sensitive;>was sleeping lightly
{A} fell off {B}|holder kitchen toy art|furniture part vehicle|round;badly balanced;too heavy;>had been pushed|crooked;too narrow;sloping;unstable;>shook
{A} did not fit {B}|part tool clothes|machine part body|too big;the wrong size;badly made;>had shrunk|swollen;too narrow;damaged;unusual
{A} broke {B}|toy tool|part kitchen furniture|heavy;hard;>had been thrown too hard;thrown by a child|fragile;thin;old;brittle
{A} blocked the view of {B}|plant place part|water outdoor art|tall;huge;too high;>had been built too near|distant;small;low;far away
{A} looked smaller than {B}|place furniture|place furniture|far away;empty;narrow;dark|bright;huge;well lit;wide
{A} sold better than {B}|text art machine food|text art machine food|cheap;good;new;exciting;>had good reviews|boring;outdated;overpriced;>had bad reviews;faulty
{A} was louder than {B}|machine instrument vehicle|machine instrument smell_sound|old;broken;powerful;>had no silencer|modern;quiet;far away;>had been turned down
{A} lasted longer than {B}|event|event art|interesting;well organised;popular;>started late|short;boring;cancelled;>was cut short
{A} cost more than {B}|furniture machine clothes vehicle|furniture machine clothes toy|handmade;rare;antique;>had been made to order;luxurious|second-hand;damaged;simple;>had been reduced;on sale
{A} arrived before {B}|vehicle group|vehicle group|fast;early;punctual;>had left earlier|late;slow;delayed;stuck in traffic
{A} dried faster than {B}|clothes|clothes|thin;light;made of nylon;>hung in the sun|thick;heavy;soaked;>hung in the shade
{A} grew better than {B}|plant vegetable|plant vegetable|healthy;well watered;robust;>got more sun|sick;neglected;delicate;>got no sun
{A} tasted better than {B}|food fruit|food fruit|fresh;ripe;homemade;well cooked;>had been cooked with butter|stale;overcooked;unripe;>had been cooked too long
{A} ran faster than {B}|animal|animal|young;fit;healthy;>was being chased|old;fat;lame;>had hurt its leg
"""

SYNONYMS = """
hungry: famished ravenous starving peckish
thirsty: parched dehydrated
tired: weary worn_out exhausted drained sleepy
exhausted: worn_out dead_tired drained
afraid: scared frightened terrified fearful
scared: frightened afraid terrified startled
angry: furious enraged cross annoyed
nervous: anxious uneasy tense agitated
sick: ill unwell poorly
ill: sick unwell feverish
injured: hurt wounded lame
sad: unhappy miserable depressed
curious: inquisitive nosy
greedy: gluttonous insatiable
fierce: ferocious savage vicious
aggressive: hostile vicious ferocious
brave: courageous fearless bold
clever: smart cunning intelligent
lazy: idle sluggish
shy: timid wary
young: newborn inexperienced immature
old: elderly ancient aged
delicious: tasty yummy scrumptious mouth-watering appetising
tasty: delicious flavoursome yummy
rotten: spoiled mouldy off decayed
juicy: succulent tender
sweet: sugary honeyed
bitter: acrid sour sharp_to_the_taste
spicy: hot_and_peppery peppery
fresh: freshly_made newly_picked
disgusting: revolting foul repulsive horrible
raw: uncooked bloody
dry: dried_out arid
dirty: filthy grubby grimy muddy
clean: spotless tidy
wet: soaked damp dripping soggy
broken: smashed faulty damaged defective in_pieces
damaged: battered dented ruined
worn out: shabby threadbare
old-fashioned: dated outdated
rusty: corroded
heavy: weighty too_heavy_to_lift massive
light: lightweight feather-light
big: large huge enormous bulky
huge: enormous gigantic immense massive
small: little tiny minute
tiny: minuscule very_small
narrow: tight cramped
wide: broad spacious
deep: bottomless very_deep
fragile: delicate breakable brittle frail
solid: sturdy robust strong firm
weak: feeble frail flimsy
strong: powerful sturdy robust
sharp: pointed razor-sharp
thin: slim flimsy
thick: dense bulky
loud: noisy deafening
quiet: silent peaceful calm
noisy: loud rowdy
dark: dim gloomy pitch-black
bright: dazzling well_lit
dangerous: hazardous risky unsafe perilous
safe: secure protected
icy: frozen frosty slippery
slippery: slick greasy icy
muddy: swampy boggy
flooded: under_water waterlogged
blocked: closed obstructed impassable
closed: shut locked
full: packed crammed overcrowded
empty: deserted vacant
crowded: packed overcrowded busy
expensive: costly pricey overpriced
cheap: inexpensive low-priced a_bargain
useless: worthless no_good
new: brand-new recent
modern: up-to-date state-of-the-art
beautiful: lovely gorgeous pretty
ugly: hideous unattractive
magnificent: splendid superb
precious: valuable priceless
comfortable: cosy soft
boring: dull tedious tiresome
interesting: fascinating gripping
difficult: hard tricky complicated
complicated: complex involved
easy: simple straightforward
important: crucial vital
urgent: pressing
unfair: unjust
fast: quick speedy rapid swift
slow: sluggish unhurried
violent: fierce raging
far away: distant remote a_long_way_off
close: nearby near
stuck: jammed wedged
unstable: wobbly shaky
on fire: burning in_flames ablaze
"""

# What someone does with one of two nouns: "so Tom ate it".
OBJECTS = """
@animal ~ small group
fed {it};stroked {it};took {it} for a walk;called a vet for {it};set {it} free;put {it} on a lead;gave {it} some water;let {it} out
@food ~ liquid fruit vegetable animal small plant medicine
ate {it};finished {it} for lunch;swallowed {it};put {it} in the oven;put some salt on {it};took a bite of {it};served {it} with rice;chewed {it} slowly
@fruit vegetable ~ food plant
peeled {it};washed and ate {it};squeezed {it}
@liquid ~ food medicine
drank {it};sipped {it};stirred {it};poured {it} down the sink;drank {it} in one go
@clothes ~ jewel
put {it} on;took {it} off;ironed {it};sewed a button on {it};wore {it} to work;tried {it} on;hung {it} on the line;folded {it}
@jewel ~ clothes art instrument
wore {it} round the neck;locked {it} in the safe;pawned {it}
@furniture ~ holder part kitchen instrument
sat down on {it};lay down on {it};dusted {it};varnished {it}
@machine ~ vehicle ship aircraft tool instrument software part
switched {it} off;switched {it} on;unplugged {it};plugged {it} in;recharged {it}
@instrument ~ art smell_sound
tuned {it};practised on {it} every day;learned to play {it}
@text ~ art idea speech policy software
read {it} twice;translated {it};published {it};read {it} aloud;signed {it};read {it} from cover to cover
@art ~ text event idea
hung {it} on the wall;framed {it};admired {it}
@plant ~ fruit vegetable outdoor material
watered {it};pruned {it};planted {it} in the garden;dug {it} up
@vehicle ~ ship aircraft machine part
parked {it};drove {it} home;got into {it};filled {it} up with petrol;got out of {it}
@ship ~ vehicle aircraft
rowed {it} to the shore;moored {it}
@place room ~ outdoor part way
walked into {it};rented {it} for a month;moved into {it};swept {it};painted {it} white;furnished {it}
@water ~ liquid outdoor
swam in {it};swam across {it};fished in {it};dived into {it}
@way ~ outdoor place
crossed {it};walked along {it};followed {it} to the end
@holder kitchen ~ furniture
filled {it};emptied {it};put a lid on {it};washed {it} up
@part ~ furniture machine vehicle holder
opened {it};closed {it};shut {it} quietly;bolted {it};knocked on {it};leaned out of {it}
@money ~ policy
paid {it} back;earned {it} honestly;spent {it} at once
@event ~ policy text art speech
attended {it};put {it} off until May;called {it} off
@idea policy ~ text speech event art money
thought about {it};put {it} into practice;explained {it} to us;argued against {it}
@ailment ~ feeling body animal
caught {it} at school;recovered from {it};died of {it}
@medicine ~ food liquid
took {it} after breakfast;prescribed {it};took {it} twice a day
"""
