"""The words and frames from which pronouns.py writes its sentences: nouns, qualities, what happens and why."""

from __future__ import annotations

__all__ = [
    "ACTS",
    "ANIMALS",
    "EFFECTS",
    "FRAMES",
    "MOODS",
    "NOUNS",
    "OF",
    "OF_PEOPLE",
    "PEOPLE",
    "QUALITIES",
    "SINGLES",
    "THINGS",
    "WHO",
]

# Nouns: English:French:gender, then the plurals where they are not formed with -s (- where there is none).
# _ is a space; * marks a French h that is aspirated.
NOUNS = {
    "animal": """horse:cheval:m:horses:chevaux mare:jument:f cow:vache:f goat:chèvre:f sheep:mouton:m:sheep:moutons
        bird:oiseau:m:birds:oiseaux duck:canard:m goose:oie:f:geese:oies swan:cygne:m owl:*hibou:m:owls:hiboux
        parrot:perroquet:m squirrel:écureuil:m giraffe:girafe:f zebra:zèbre:m camel:chameau:m:camels:chameaux
        seal:phoque:m lizard:lézard:m calf:veau:m:calves:veaux lamb:agneau:m:lambs:agneaux foal:poulain:m
        kitten:chaton:m puppy:chiot:m:puppies:chiots magpie:pie:f swallow:hirondelle:f pigeon:pigeon:m
        seagull:mouette:f hedgehog:*hérisson:m mole:taupe:f beaver:castor:m deer:cerf:m:deer:cerfs doe:biche:f
        pig:cochon:m bull:taureau:m:bulls:taureaux ant:fourmi:f fly:mouche:f:flies:mouches""",
    "hunter": """bear:ours:m:bears:ours tiger:tigre:m fox:renard:m:foxes:renards eagle:aigle:m panther:panthère:f
        crocodile:crocodile:m shark:requin:m snake:serpent:m whale:baleine:f""",
    "prey": """goat:chèvre:f sheep:mouton:m:sheep:moutons duck:canard:m goose:oie:f:geese:oies lamb:agneau:m:lambs:agneaux
        mole:taupe:f doe:biche:f pigeon:pigeon:m magpie:pie:f calf:veau:m:calves:veaux seal:phoque:m swallow:hirondelle:f
        foal:poulain:m kitten:chaton:m""",
    "vehicle": """taxi:taxi:m scooter:scooter:m van:camionnette:f ambulance:ambulance:f caravan:caravane:f
        tram:tramway:m wagon:chariot:m limousine:limousine:f minibus:minibus:m:minibuses:minibus""",
    "road": """road:route:f highway:autoroute:f avenue:avenue:f boulevard:boulevard:m crossing:passage:m alley:ruelle:f
        track:chemin:m""",
    "vessel": "ferry:ferry:m:ferries:ferrys canoe:canoë:m sailboat:voilier:m raft:radeau:m:rafts:radeaux barge:péniche:f "
    "gondola:gondole:f",
    "water": "lake:lac:m canal:canal:m:canals:canaux stream:ruisseau:m:streams:ruisseaux sea:mer:f swamp:marécage:m "
    "lagoon:lagune:f",
    "seat": """chair:chaise:f armchair:fauteuil:m stool:tabouret:m bench:banc:m:benches:bancs mattress:matelas:m:mattresses:matelas
        cushion:coussin:m hammock:*hamac:m""",
    "furniture": """wardrobe:armoire:f piano:piano:m bookcase:bibliothèque:f screen:écran:m
        chest:coffre:m dresser:commode:f""",
    "container": """bag:sac:m basket:panier:m bucket:seau:m:buckets:seaux jar:bocal:m:jars:bocaux barrel:tonneau:m:barrels:tonneaux
        trunk:malle:f crate:caisse:f backpack:sac_à_dos:m:backpacks:sacs_à_dos pocket:poche:f envelope:enveloppe:f
        drawer:tiroir:m""",
    "clothes": """skirt:jupe:f sweater:pull:m jacket:veste:f scarf:écharpe:f:scarves:écharpes glove:gant:m tie:cravate:f
        sock:chaussette:f belt:ceinture:f suit:costume:m shoe:chaussure:f boot:botte:f cap:casquette:f
        raincoat:imperméable:m pyjama:pyjama:m""",
    "jewel": "ring:bague:f necklace:collier:m watch:montre:f:watches:montres bracelet:bracelet:m coin:pièce:f "
    "diamond:diamant:m pearl:perle:f",
    "device": """computer:ordinateur:m television:télévision:f radio:radio:f camera:appareil_photo:m:cameras:appareils_photo
        fan:ventilateur:m tablet:tablette:f keyboard:clavier:m pump:pompe:f engine:moteur:m battery:batterie:f:batteries:batteries
        calculator:calculatrice:f microphone:micro:m torch:torche:f:torches:torches""",
    "tool": """saw:scie:f drill:perceuse:f needle:aiguille:f brush:brosse:f:brushes:brosses shovel:pelle:f axe:*hache:f
        broom:balai:m fork:fourchette:f rake:râteau:m:rakes:râteaux screwdriver:tournevis:m:screwdrivers:tournevis
        pencil:crayon:m""",
    "instrument": "guitar:guitare:f violin:violon:m drum:tambour:m trumpet:trompette:f flute:flûte:f harp:*harpe:f",
    "food": """apple:pomme:f pear:poire:f orange:orange:f lemon:citron:m strawberry:fraise:f:strawberries:fraises
        peach:pêche:f:peaches:pêches melon:melon:m sandwich:sandwich:m:sandwiches:sandwichs pizza:pizza:f omelette:omelette:f
        pie:tarte:f yogurt:yaourt:m fish:poisson:m:fish:poissons steak:steak:m potato:pomme_de_terre:f:potatoes:pommes_de_terre
        onion:oignon:m tomato:tomate:f:tomatoes:tomates pepper:poivron:m salad:salade:f biscuit:biscuit:m
        sausage:saucisse:f mushroom:champignon:m""",
    "drink": "water:eau:f:-:- coffee:café:m:-:- juice:jus:m:-:- beer:bière:f:-:- lemonade:limonade:f:-:- cider:cidre:m:-:- "
    "broth:bouillon:m:-:-",
    "text": """letter:lettre:f poem:poème:m novel:roman:m magazine:magazine:m dictionary:dictionnaire:m:dictionaries:dictionnaires
        article:article:m report:rapport:m contract:contrat:m message:message:m postcard:carte_postale:f:postcards:cartes_postales
        note:note:f""",
    "matter": """law:loi:f problem:problème:m project:projet:m decision:décision:f rule:règle:f theory:théorie:f:theories:théories
        question:question:f method:méthode:f crisis:crise:f:crises:crises""",
    "talk": "lesson:leçon:f speech:discours:m:speeches:discours answer:réponse:f article:article:m report:rapport:m "
    "lecture:conférence:f example:exemple:m",
    "event": "party:fête:f:parties:fêtes trip:voyage:m meeting:réunion:f concert:concert:m exam:examen:m race:course:f "
    "film:film:m wedding:mariage:m game:jeu:m:games:jeux",
    "place": """church:église:f:churches:églises castle:château:m:castles:châteaux tower:tour:f hospital:hôpital:m:hospitals:hôpitaux
        bakery:boulangerie:f:bakeries:boulangeries theatre:théâtre:m stadium:stade:m factory:usine:f:factories:usines
        market:marché:m restaurant:restaurant:m pharmacy:pharmacie:f:pharmacies:pharmacies university:université:f:universities:universités
        palace:palais:m:palaces:palais pool:piscine:f""",
    "room": """kitchen:cuisine:f attic:grenier:m balcony:balcon:m:balconies:balcons garage:garage:m cellar:cave:f
        corridor:couloir:m bathroom:salle_de_bains:f:bathrooms:salles_de_bains""",
    "shelter": """barn:grange:f stable:écurie:f cabin:cabane:f cage:cage:f park:parc:m forest:forêt:f garage:garage:m
        kennel:chenil:m cellar:cave:f nest:nid:m farm:ferme:f""",
    "land": "field:champ:m meadow:prairie:f valley:vallée:f forest:forêt:f village:village:m city:ville:f:cities:villes "
    "desert:désert:m island:île:f",
    "weather": "rain:pluie:f:-:- wind:vent:m snow:neige:f:-:- storm:tempête:f thunderstorm:orage:m hail:grêle:f:-:- "
    "frost:gel:m:-:-",
    "force": "storm:tempête:f fire:incendie:m wave:vague:f hurricane:ouragan:m flood:inondation:f wind:vent:m "
    "earthquake:séisme:m explosion:explosion:f avalanche:avalanche:f",
    "plant": "rose:rose:f cactus:cactus:m:cactuses:cactus oak:chêne:m grass:herbe:f:-:- plant:plante:f tulip:tulipe:f "
    "palm_tree:palmier:m vine:vigne:f ivy:lierre:m:-:-",
    "cover": "tree:arbre:m rock:rocher:m bush:buisson:m:bushes:buissons oak:chêne:m haystack:meule_de_foin:f:haystacks:meules_de_foin "
    "barrel:tonneau:m:barrels:tonneaux crate:caisse:f barn:grange:f tower:tour:f",
    "shield": "umbrella:parapluie:m jacket:veste:f cabin:cabane:f raincoat:imperméable:m cap:casquette:f parasol:parasol:m",
    "person": """father:père:m mother:mère:f uncle:oncle:m aunt:tante:f grandfather:grand-père:m grandmother:grand-mère:f
        brother:frère:m daughter:fille:f son:fils:m niece:nièce:f nephew:neveu:m cousin:cousin:m""",
    "heater": "oven:four:m stove:poêle:m:stoves:poêles fireplace:cheminée:f heater:radiateur:m boiler:chaudière:f",
    "starter": "battery:batterie:f:batteries:batteries engine:moteur:m pump:pompe:f remote_control:télécommande:f button:bouton:m",
    "bucket": "bucket:seau:m:buckets:seaux ditch:fossé:m:ditches:fossés pot:marmite:f bathtub:baignoire:f well:puits:m:wells:puits",
}  # fmt: skip

# Qualities: English=masculine=feminine; @ makes an idiom with avoir; ! does not vary.
QUALITIES = """
hungry=@faim;thirsty=@soif;afraid=@peur;scared=@peur;cold=@froid;hot=@chaud;sleepy=@sommeil;ashamed=@honte;right=@raison
wrong=@tort;starving=affamé=affamée;tired=fatigué=fatiguée;sick=malade=malade;exhausted=épuisé=épuisée;lost=perdu=perdue
sad=triste=triste;happy=heureux=heureuse;nervous=nerveux=nerveuse;worried=inquiet=inquiète;young=jeune=jeune;old=vieux=vieille
injured=blessé=blessée;alone=seul=seule;shy=timide=timide;brave=courageux=courageuse;strong=fort=forte;weak=faible=faible
curious=curieux=curieuse;lazy=paresseux=paresseuse;greedy=gourmand=gourmande;fierce=féroce=féroce;slow=lent=lente;fast=rapide=rapide
small=petit=petite;tiny=minuscule=minuscule;big=grand=grande;huge=énorme=énorme;kind=gentil=gentille;impatient=impatient=impatiente
absent=absent=absente;late=!en retard;busy=occupé=occupée;angry=!en colère;jealous=jaloux=jalouse;proud=fier=fière
ripe=mûr=mûre;juicy=juteux=juteuse;delicious=délicieux=délicieuse;fresh=frais=fraîche;sweet=sucré=sucrée;soft=mou=molle
sour=acide=acide;bitter=amer=amère;raw=cru=crue;spicy=épicé=épicée;hard=dur=dure;dry=sec=sèche;rotten=pourri=pourrie
salty=salé=salée;strange=étrange=étrange;warm-place=chaud=chaude;cold-thing=froid=froide;hot-thing=chaud=chaude
quiet=calme=calme;safe=sûr=sûre;dark=sombre=sombre;noisy=bruyant=bruyante;dangerous=dangereux=dangereuse;dirty=sale=sale
empty=vide=vide;on fire=!en feu;closed=fermé=fermée;open=ouvert=ouverte;locked=!fermé à clé=!fermée à clé;full=plein=pleine
deep=profond=profonde;icy=glacé=glacée;clean=propre=propre;calm=calme=calme;flooded=inondé=inondée;blocked=bloqué=bloquée
slippery=glissant=glissante;wet=mouillé=mouillée;muddy=boueux=boueuse;narrow=étroit=étroite;wide=large=large;low=bas=basse
tall=haut=haute;high=haut=haute;damaged=endommagé=endommagée;broken=cassé=cassée;broken down=!en panne;rusty=rouillé=rouillée
out of petrol=!à court d'essence;frozen=gelé=gelée;dead=mort=morte;heavy=lourd=lourde;light=léger=légère
expensive=cher=chère;cheap=!bon marché;ugly=laid=laide;beautiful=beau=belle;new=neuf=neuve;modern=moderne=moderne
solid=solide=solide;fragile=fragile=fragile;precious=précieux=précieuse;torn=déchiré=déchirée;worn out=usé=usée
comfortable=confortable=confortable;uncomfortable=inconfortable=inconfortable;elegant=élégant=élégante;practical=pratique=pratique
dusty=poussiéreux=poussiéreuse;sticky=collant=collante;thick=épais=épaisse;thin=mince=mince;round=rond=ronde;pointed=pointu=pointue
shiny=brillant=brillante;loud=bruyant=bruyante;silent=silencieux=silencieuse;close=proche=proche;far away=éloigné=éloignée
famous=célèbre=célèbre;crowded=bondé=bondée;short=court=courte;long=long=longue;urgent=urgent=urgente;easy=facile=facile
difficult=difficile=difficile;interesting=intéressant=intéressante;boring=ennuyeux=ennuyeuse;complicated=compliqué=compliquée
vague=vague=vague;unclear=confus=confuse;absurd=absurde=absurde;useless=inutile=inutile;useful=utile=utile;unfair=injuste=injuste
important=important=importante;violent=violent=violente;powerful=puissant=puissante;sudden=soudain=soudaine;badly built=!mal construit=!mal construite
isolated=isolé=isolée;made of wood=!en bois;delicate=délicat=délicate;rough=agité=agitée;unstable=instable=instable
white=blanc=blanche;black=noir=noire;blue=bleu=bleue;brown=marron=!marron;perfect=parfait=parfaite;magnificent=magnifique=magnifique
ready=prêt=prête;free=gratuit=gratuite;lost-thing=perdu=perdue;ruined=!en ruine;overheated=surchauffé=surchauffée
switched off=éteint=éteinte;well hidden=!bien caché=!bien cachée;ill=malade=malade;poor=pauvre=pauvre;rich=riche=riche
successful=réussi=réussie;recent=récent=récente;sad-thing=triste=triste;funny=drôle=drôle;fat=gros=grosse;restless=agité=agitée
stolen=volé=volée
""".replace("\n", ";")  # fmt: skip

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
""".strip()  # fmt: skip

# What may be said of anything in a group, with one noun in the sentence.
OF = {
    "vehicle vessel": "old;slow;new;comfortable;expensive;broken down;empty;dirty;modern;white;black;fast;full;blue",
    "seat furniture": "old;comfortable;heavy;ugly;broken;new;expensive;solid;dusty;brown;black;elegant",
    "container": "empty;full;heavy;light;old;solid;open;dirty;practical;black;blue;torn",
    "clothes": "new;old;torn;dirty;wet;elegant;expensive;cheap;black;blue;white;clean;worn out;brown",
    "jewel instrument": "precious;expensive;beautiful;old;broken;new;magnificent;fragile;shiny",
    "device tool": "broken;useful;useless;new;modern;practical;expensive;cheap;heavy;light;solid;old;rusty",
    "food": "delicious;rotten;fresh;ripe;salty;dry;raw;juicy;frozen;cold-thing;hot-thing;hard;strange",
    "drink": "cold-thing;hot-thing;bitter;delicious;sweet;fresh;strange;expensive",
    "text talk matter": "short;long;boring;interesting;difficult;easy;important;strange;useless;complicated;vague;recent",
    "event": "boring;long;funny;expensive;magnificent;free;important;short;successful",
    "place room shelter": "empty;old;closed;open;noisy;quiet;dirty;clean;modern;small;huge;beautiful;locked;dark;full",
    "water land road": "beautiful;dangerous;calm;huge;frozen;flooded;famous;wide;muddy",
    "animal hunter prey": "hungry;thirsty;tired;afraid;cold;hot;sleepy;sick;young;old;injured;lost;happy;sad;curious;nervous;scared;starving",
    "plant": "beautiful;tall;delicate;dry;magnificent;huge;dead;white;sick",
}
SINGLES = """
I know {A}. I think that {it} {is} {q}.|Je connais {A}. Je pense {quil} {soit}.
I remember {A} very well: {it} {was} {q}.|Je me souviens très bien {dA} : {il} {fut}.
We talked about {A} because {it} {was} {q}.|Nous avons parlé {dA} {parcequil} {fut}.
Everyone noticed {A} because {it} {was} {q}.|Tout le monde a remarqué {A} {parcequil} {fut}.
{P} complained about {A} because {it} {was} {q}.|{P} {sest} plaint{e} {dA} {parcequil} {fut}.
{P} spoke of {A}, but {it} {was} {q}.|{P} {a} parlé {dA}, mais {il} {fut}.
I thought of {A} because {it} {was} {q}.|J'ai pensé {aA} {parcequil} {fut}.
""".strip()  # fmt: skip
THINGS = """
{P} showed me {A} because {it} {was} {q}.|{P} m'{a} montré {A} {parcequil} {fut}.
I lost {A}, but {it} {was} {q}.|J'ai perdu {A}, mais {il} {fut}.
Have you seen {A}? {It} {is} {q}.|As-tu vu {A} ? {Il} {soit}.
{A} fell. {It} {was} {q}.|{A} {est} tombé{e}. {Il} {fut}.
Look at {A}! {It} {is} {q}!|Regarde {A} ! {Il} {soit} !
When I found {A}, {it} {was} {q}.|Quand j'ai trouvé {A}, {il} {fut}.
I will not take {A} if {it} {is} {q}.|Je ne prendrai pas {A} {sil} {soit}.
{A} disappeared. {It} {was} {q}.|{A} {a} disparu. {Il} {fut}.
He wants to keep {A} since {it} {is} {q}.|Il veut garder {A} {puisquil} {soit}.
Nobody took {A} because {it} {was} {q}.|Personne n'a pris {A} {parcequil} {fut}.
You can leave {A} here. {It} {is} {q}.|Tu peux laisser {A} ici. {Il} {soit}.
{P} found {A}, but {it} {was} {q}.|{P} {a} trouvé {A}, mais {il} {fut}.
""".strip()  # fmt: skip
ANIMALS = """
{A} {was} {q}, so {it} came back to the farm.|{A} {fut}, alors {il} {est} revenu{e} à la ferme.
{A} trembled because {it} {was} {q}.|{A} {tremblait} {parcequil} {fut}.
{A} came closer because {it} {was} {q}.|{A} {sest} approché{e} {parcequil} {fut}.
{A} woke up because {it} {was} {q}.|{A} {sest} réveillé{e} {parcequil} {fut}.
{A} can't sleep because {it} {is} {q}.|{A} {narrive} pas à dormir {parcequil} {soit}.
{A} made a lot of noise because {it} {was} {q}.|{A} {a} fait beaucoup de bruit {parcequil} {fut}.
Because {it} {was} {q}, {A} stopped.|Comme {il} {fut}, {A} {sest} arrêté{e}.
{A} followed us since {it} {was} {q}.|{A} nous {a} suivis {puisquil} {fut}.
If {A} {is} {q}, {it} will come.|Si {A} {soit}, {il} {viendra}.
When {A} {is} {q}, {it} cries.|Quand {A} {soit}, {il} {pleure}.
{A} {is} not moving. I think {it} {is} {q}.|{A} ne {bouge} pas. Je crois {quil} {soit}.
I helped {A} because {it} {was} {q}.|J'ai aidé {A} {parcequil} {fut}.
""".strip()  # fmt: skip
PEOPLE = """
{P} went home because {he} {was} {q}.|{P} {est} rentré{e} à la maison {parcequil} {fut}.
{P} sat down because {he} {was} {q}.|{P} {sest} assis{e} {parcequil} {fut}.
{P} stopped working because {he} {was} {q}.|{P} {a} arrêté de travailler {parcequil} {fut}.
{P} {was} {q}, so {he} left early.|{P} {fut}, alors {il} {est} parti{e} tôt.
{P} says that {he} {is} {q}.|{P} {dit} {quil} {soit}.
Since {he} {was} {q}, {P} stayed indoors.|Comme {il} {fut}, {P} {est} resté{e} à l'intérieur.
{P} called me because {he} {was} {q}.|{P} m'{a} appelé {parcequil} {fut}.
When {P} {is} {q}, {he} drinks some water.|Quand {P} {soit}, {il} {boit} de l'eau.
{P} didn't answer because {he} {was} {q}.|{P} {na} pas répondu {parcequil} {fut}.
""".strip()  # fmt: skip
OF_PEOPLE = (
    "hungry;thirsty;tired;cold;hot;afraid;sleepy;sick;sad;nervous;busy;late;exhausted;worried;alone;angry;ashamed;happy"
)
MOODS = "busy;tired;nervous;impatient;curious;happy;worried;hungry;cold"
# "It" for an act, not for a noun: ça.
WHO = [  # English, French, verb ending, me / him / her, agreement
    ("I", "je", 0, "me", "me", "m"), ("we", "nous", 2, "us", "nous", "mp"), ("he", "il", 1, "him", "le", "m"),
    ("she", "elle", 1, "her", "la", "f"), ("they", "ils", 3, "them", "les", "mp"),
]  # fmt: skip
ACTS = [  # English (I / he), French (je / il / nous / ils)
    ("swim in the morning", "swims in the morning", "nage nage nageons nagent", "le matin"),
    ("dance every day", "dances every day", "danse danse dansons dansent", "tous les jours"),
    ("sing very often", "sings very often", "chante chante chantons chantent", "très souvent"),
    ("listen to jazz", "listens to jazz", "écoute écoute écoutons écoutent", "du jazz"),
    ("eat chocolate", "eats chocolate", "mange mange mangeons mangent", "du chocolat"),
    ("cook at night", "cooks at night", "cuisine cuisine cuisinons cuisinent", "le soir"),
    ("play chess", "plays chess", "joue joue jouons jouent", "aux échecs"),
    ("watch the rain", "watches the rain", "regarde regarde regardons regardent", "la pluie"),
    ("talk to strangers", "talks to strangers", "parle parle parlons parlent", "à des inconnus"),
    ("walk along the sea", "walks along the sea", "marche marche marchons marchent", "au bord de la mer"),
    ("travel by night", "travels by night", "voyage voyage voyageons voyagent", "de nuit"),
]
EFFECTS = ["happy", "sad", "nervous", "sick", "jealous", "proud", "strong", "impatient", "calm"]
